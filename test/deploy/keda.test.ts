import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { randomName } from '../../src/shared/lib/random-name.ts';
import { keepClaim, linkWith, registered } from '../support/registered.ts';
import { addCommit } from '../support/rows.ts';
import { describeService } from '../support/service.ts';
import { manifestsIn } from './manifests.ts';
import { project } from './support.ts';

/**
 * What KEDA makes of the ScaledJob and of a real server's `GET /queue`: its sums, checked against its sources. Pods are real
 * connections that take real work, some polls after KEDA has created them.
 */

const token = 'a-metrics-token-that-is-long-enough';
const patient = new AbortController().signal;

interface ScaledJob {
  maxReplicaCount: number;
  scalingStrategy: { strategy: string; pendingPodConditions?: string[] };
  triggers: { metadata: { url: string; valueLocation: string; targetValue: string } }[];
}

const { spec } = manifestsIn(readFileSync(join(project, 'deploy/kubernetes/runners.yaml'), 'utf8')).find(
  ({ kind }) => kind === 'ScaledJob',
) as unknown as { spec: ScaledJob };

/** A pod in the polls of KEDA since it was created. */
interface Pod {
  age: number;
  link?: ReturnType<typeof linkWith>;
  hasWork: boolean;
  isReady: boolean;
}

const runsAt = 1;
/** Its image is there, and the runner has tried its sandbox. */
const connectsAt = 3;

/** How many jobs KEDA creates at a poll (its strategy `accurate`). */
function wanted(value: number, pods: readonly Pod[], { maxReplicaCount: most, scalingStrategy, triggers }: ScaledJob) {
  assert.equal(scalingStrategy.strategy, 'accurate');
  const target = Number(triggers[0]?.metadata.targetValue);
  const scale = Math.min(most, Math.ceil(value / target));
  const conditions = scalingStrategy.pendingPodConditions ?? [];
  assert.ok(conditions.every((condition) => condition === 'Ready'));
  const isPending = ({ age, isReady }: Pod): boolean => (conditions.length > 0 ? !isReady : age < runsAt);
  const room = scale + pods.length > most ? most - pods.length : scale - pods.filter((pod) => isPending(pod)).length;
  return value > 0 ? Math.max(0, Math.min(Math.ceil(value), room)) : 0;
}

describeService(
  'KEDA, by its sums',
  (service) => {
    let runner: string;
    before(async () => {
      const far = await registered(service);
      runner = far.token;
      far.link.close();
    });

    const valueOf = async (scaled: ScaledJob): Promise<number> => {
      const { url = '', valueLocation = '' } = scaled.triggers[0]?.metadata ?? {};
      const { body } = await service.api.get(new URL(url).pathname, { headers: { authorization: `Bearer ${token}` } });
      const found = valueLocation
        .split('.')
        .reduce<unknown>((value, key) => (value as Record<string, unknown>)[key], body);
      assert.equal(typeof found, 'number');
      return found as number;
    };

    /** Polls until all work is given, and some polls more. `comes` is the work that comes with each poll. */
    const simulate = async (comes: readonly number[], scaled: ScaledJob) => {
      const pods: Pod[] = [];
      let work = 0;
      let mostPods = 0;
      for (let poll = 0; poll < comes.length + 12; poll += 1) {
        const more = comes[poll] ?? 0;
        if (more > 0) await addWork(more);
        work += more;
        const count = wanted(await valueOf(scaled), pods, scaled);
        for (let at = 0; at < count; at += 1) pods.push({ age: 0, hasWork: false, isReady: false });
        mostPods = Math.max(mostPods, pods.length);
        for (const pod of pods) await grow(pod);
      }
      const waiting = await valueOf(scaled);
      for (const { link } of pods) link?.close();
      await service.store.db.transaction((trx) => trx.deleteFrom('jobs').execute());
      return { mostPods, work, waiting, working: pods.filter(({ hasWork }) => hasWork).length };
    };
    const addWork = async (count: number): Promise<void> => {
      const owner = await service.user();
      const made = await owner.createProject();
      for (let at = 0; at < count; at += 1) await owner.createSuite(made);
      const { ref } = await addCommit(service.store, made);
      await owner.post(`/projects/${made.id}/build_requests`, { commit_ref: ref });
    };
    /** A runner has its work when its probe says that it is connected. */
    const grow = async (pod: Pod): Promise<void> => {
      pod.age += 1;
      if (pod.age < connectsAt) return;
      pod.isReady = pod.link !== undefined;
      pod.link ??= linkWith(service, runner);
      if (pod.hasWork) return;
      const order = await pod.link.next({ claim: randomName(), slot: 'builds', holdMs: 0 }, patient);
      if (order) await keepClaim(service, order.claim);
      pod.hasWork = order !== undefined;
    };

    test('starts no more pods than there is work, while they start and when they work', async () => {
      for (const comes of [[8], [1], [3, 0, 4, 1], [1, 1, 1, 1, 1, 1], [0, 5, 0, 0, 0, 0, 5]]) {
        const { mostPods, work, waiting, working } = await simulate(comes, spec);
        assert.deepEqual({ mostPods, waiting, working }, { mostPods: work, waiting: 0, working: work }, comes.join());
      }
    });

    test('starts too many if pods count as soon as they run, which is what the condition is for', async () => {
      const { mostPods } = await simulate([8], { ...spec, scalingStrategy: { strategy: 'accurate' } });
      assert.ok(mostPods > 8, `${mostPods}`);
    });

    test('never exceeds the limit, and fills it where more than half of it waits', async () => {
      const limited = { ...spec, maxReplicaCount: 6 };
      assert.equal((await simulate([3], limited)).mostPods, 3);
      assert.equal((await simulate([4], limited)).mostPods, 6);
      const { mostPods, waiting } = await simulate([9, 9], limited);
      assert.deepEqual([mostPods, waiting], [6, 12]);
    });
  },
  { settings: { metrics_token: token } },
);
