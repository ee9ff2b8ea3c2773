import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
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
      changed('Ingress', 'headrace', '"pathType":"Prefix"', '"x":1'),
    ]);
    for (const wrong of [
      /two|number/,
      /readynessProbe/,
      /'hostUser'|"hostUser"/,
      /Naked/,
      /scalingStrategie/,
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
      ...Object.keys(
        one('ConfigMap', all.find(({ kind }) => kind === 'ConfigMap')?.metadata.name ?? '').data as object,
      ),
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
