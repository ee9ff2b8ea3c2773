import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { operatorProgram } from '../../src/cli/operator/catalog.ts';
import { leavesOf } from '../../src/cli/developer/program.ts';
import { readConfig } from '../../src/shared/config.ts';
import { manifestsIn, wrongWith, type Manifest } from './manifests.ts';
import { done, project } from './support.ts';

const folder = join(project, 'deploy/kubernetes');

describe('the manifests for Kubernetes', () => {
  let all: Manifest[] = [];
  let secrets: Manifest[] = [];
  before(async () => {
    all = manifestsIn(await done('kubectl', 'kustomize', folder));
    secrets = manifestsIn(readFileSync(join(folder, 'secrets.example.yaml'), 'utf8'));
  });
  const one = (kind: string, name: string): Manifest =>
    all.find((manifest) => manifest.kind === kind && manifest.metadata.name === name) ?? assert.fail(`${kind} ${name}`);
  /** Every value under a key, at any depth. */
  const under = (value: unknown, key: string): unknown[] => {
    if (typeof value !== 'object' || value === null) return [];
    return Object.entries(value).flatMap(([name, inner]) => [...(name === key ? [inner] : []), ...under(inner, key)]);
  };

  test('are what the published schemas of Kubernetes and KEDA let through', async () => {
    assert.deepEqual(all.map(({ kind }) => kind).toSorted(), [
      'ConfigMap',
      'ConfigMap',
      'DaemonSet',
      'Deployment',
      'Ingress',
      'Namespace',
      'Namespace',
      'NetworkPolicy',
      'NetworkPolicy',
      'PodDisruptionBudget',
      'ScaledJob',
      'Service',
      'TriggerAuthentication',
    ]);
    assert.equal(await wrongWith([...all, ...secrets]), '');
  });

  test('and wrong ones are not let through', async () => {
    const changed = (kind: string, name: string, from: string, to: string): Manifest => {
      const text = JSON.stringify(one(kind, name));
      assert.ok(text.includes(from), from);
      return JSON.parse(text.replace(from, to)) as Manifest;
    };
    const words = await wrongWith([
      changed('Deployment', 'headrace', '"replicas":2', '"replicas":"two"'),
      changed('Deployment', 'headrace', '"readinessProbe"', '"readynessProbe"'),
      changed('ScaledJob', 'headrace-runner', '"hostUsers"', '"hostUser"'),
      changed('ScaledJob', 'headrace-runner', '"procMount":"Unmasked"', '"procMount":"Naked"'),
      changed('ScaledJob', 'headrace-runner', '"scalingStrategy"', '"scalingStrategie"'),
      changed('ScaledJob', 'headrace-runner', '"pendingPodConditions":["Ready"]', '"pendingPodConditions":"Soon"'),
      changed('DaemonSet', 'headrace-node', '"initContainers"', '"firstContainers"'),
      changed('Ingress', 'headrace', '"pathType":"Prefix"', '"x":1'),
    ]);
    for (const wrong of [
      /two|number/,
      /readynessProbe/,
      /'hostUser'|"hostUser"/,
      /Naked/,
      /scalingStrategie/,
      /Soon|pendingPodConditions/,
      /firstContainers/,
      /pathType/,
    ])
      assert.match(words, wrong);
  });

  test('name nothing that is not there', () => {
    const namespaceOf = ({ metadata }: Manifest): string => metadata.namespace ?? '';
    const known = new Set(secrets.map((secret) => `${namespaceOf(secret)}/${secret.metadata.name}`));
    const used = all.flatMap((manifest) => {
      const references = [...under(manifest, 'secretRef'), ...under(manifest, 'secretTargetRef').flat()];
      const names = [...under(manifest, 'secretName'), ...references.map((reference) => (reference as Manifest).name)];
      return manifest.kind === 'Ingress' ? [] : names.map((name) => `${namespaceOf(manifest)}/${String(name)}`);
    });
    assert.deepEqual([...new Set(used)].toSorted(), [...known].toSorted());
    for (const image of all.flatMap((manifest) => under(manifest, 'image')))
      assert.match(String(image), /^registry\.example\.org\/headrace:[\d.]+$/);
    const pods = under(one('Deployment', 'headrace'), 'template');
    const [labels] = under(pods, 'labels');
    const volumes = all.flatMap((manifest) =>
      under(manifest, 'configMap').map((volume) => `${namespaceOf(manifest)}/${(volume as { name: string }).name}`),
    );
    const maps = all.filter(({ kind }) => kind === 'ConfigMap');
    const mapped = maps.map((map) => `${namespaceOf(map)}/${map.metadata.name}`);
    assert.deepEqual(
      volumes.filter((name) => !mapped.includes(name)),
      [],
    );
    for (const [kind, name] of [
      ['PodDisruptionBudget', 'headrace'],
      ['NetworkPolicy', 'headrace'],
    ] as const)
      assert.deepEqual(under(one(kind, name), 'matchLabels')[0], labels);
    assert.deepEqual(under(one('Service', 'headrace'), 'selector')[0], labels);
  });

  test('set nothing that is no setting', () => {
    const names = [
      ...all
        .flatMap((manifest) => under(manifest, 'env').flat())
        .map((variable) => (variable as { name: string }).name),
      ...all.filter(({ kind }) => kind === 'ConfigMap').flatMap(({ data }) => Object.keys(data as object)),
      ...secrets.flatMap(({ stringData }) => Object.keys(stringData as object)),
    ].filter((name) => name.startsWith('HEADRACE'));
    assert.ok(names.length > 6);
    for (const name of names) {
      try {
        readConfig({ flags: { data_dir: '/nowhere' }, env: { [name]: '\0' } });
      } catch (error) {
        assert.doesNotMatch(String(error), /is not a setting/);
      }
    }
  });

  test('give every file and flag that they name to the command that they name', () => {
    const known = leavesOf(operatorProgram({}));
    for (const [kind, name] of [
      ['Deployment', 'headrace'],
      ['ScaledJob', 'headrace-runner'],
    ] as const) {
      const [args = []] = under(one(kind, name), 'args') as string[][];
      const command = known.find((leaf) => leaf.name() === args[0]) ?? assert.fail(`${name}: ${args[0]}`);
      const flags = args.filter((word) => word.startsWith('--')).map((word) => word.replace(/=.*/, ''));
      const own = command.options.map(({ long }) => long);
      assert.deepEqual(
        flags.filter((flag) => !own.includes(flag)),
        [],
      );
    }
    const pod = one('ScaledJob', 'headrace-runner');
    const [args = []] = under(pod, 'args') as string[][];
    const [probe] = under(pod, 'readinessProbe') as [{ exec: { command: string[] } }];
    assert.ok(args.includes(`--ready-file=${probe.exec.command.at(-1)}`));
    const [strategy] = under(pod, 'scalingStrategy') as [{ pendingPodConditions: string[] }];
    assert.deepEqual(strategy.pendingPodConditions, ['Ready'], 'KEDA counts by that probe');
  });

  test('mount from the nodes what is put there, and nothing of /dev', () => {
    const mounted = (kind: string, name: string): string[] =>
      under(one(kind, name), 'hostPath').map((volume) => (volume as { path: string }).path);
    const [profiles = '', devices = ''] = mounted('DaemonSet', 'headrace-node');
    assert.equal(profiles, '/var/lib/kubelet/seccomp/profiles');
    assert.deepEqual(mounted('ScaledJob', 'headrace-runner'), [`${devices}/tun`]);
    const same = ['container', 'kubernetes'].map((name) =>
      readFileSync(join(folder, '..', name, 'seccomp.json'), 'utf8'),
    );
    assert.equal(same[0], same[1], 'the profile of containers and that of pods');
  });

  test('give the server’s secrets to the server alone, and builds no token of the cluster', () => {
    for (const [kind, name] of [
      ['Deployment', 'headrace'],
      ['ScaledJob', 'headrace-runner'],
    ] as const) {
      const pod = one(kind, name);
      assert.deepEqual(under(pod, 'automountServiceAccountToken'), [false]);
      assert.deepEqual(under(pod, 'allowPrivilegeEscalation'), [false]);
      assert.deepEqual(under(pod, 'drop'), [['ALL']]);
      assert.deepEqual(under(pod, 'runAsNonRoot'), [true]);
      assert.deepEqual(under(pod, 'privileged'), []);
    }
    assert.deepEqual(under(one('ScaledJob', 'headrace-runner'), 'hostUsers'), [false]);
    assert.notEqual(
      one('ScaledJob', 'headrace-runner').metadata.namespace,
      one('Deployment', 'headrace').metadata.namespace,
    );
  });
});
