import assert from 'node:assert/strict';
import { test } from 'node:test';
import { triggerRequests } from '../../../src/server/triggers/triggers.ts';
import { addCommit } from '../../support/rows.ts';
import { describeService } from '../../support/service.ts';

const rounds = 15;

describeService('triggers for the same commits', (service) => {
  test('wait for each other in one order, whatever order they name the commits in', async () => {
    const alice = await service.user();
    const made = await alice.createProject();
    const { db, ids, observers } = service.store;
    const [one, other] = [await addCommit(service.store, made), await addCommit(service.store, made)];
    const project = await db.read
      .selectFrom('projects')
      .selectAll()
      .where('id', '=', made.id)
      .executeTakeFirstOrThrow();
    let runs = 0;
    const trigger = (...refs: string[]): Promise<unknown> =>
      db.transaction((trx) => {
        runs += 1; // a transaction that was ended to break a circle is run again
        const asked = refs.map((commitRef) => ({
          commitRef,
          trigger: {
            source: 'poll',
            event: 'poll' as const,
            pullRequest: null,
            targetBranch: '',
            fromFork: false,
            sender: '',
            fetchRef: '',
            group: '',
          },
        }));
        return triggerRequests({ db, trx, ids, observers }, project, asked);
      });
    for (let round = 0; round < rounds; round += 1)
      await Promise.all([trigger(one.ref, other.ref), trigger(other.ref, one.ref)]);
    assert.equal(runs, 2 * rounds);
  });
});
