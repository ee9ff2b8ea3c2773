import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { randomName } from '../../../src/shared/lib/random-name.ts';
import { assertFields, assertRefused } from '../../support/expect.ts';
import { linkWith, registered } from '../../support/registered.ts';
import { addCommit } from '../../support/rows.ts';
import { describeService } from '../../support/service.ts';
import type { User } from '../../support/user.ts';

const token = 'a-metrics-token-that-is-long-enough';
const patient = new AbortController().signal;

describeService(
  'GET /queue',
  (service) => {
    let operator: User;
    before(async () => {
      operator = await service.user();
    });
    const asked = async (authorization: string) => service.api.get('/queue', { headers: { authorization } });

    test('counts the work of runners alone, also what somebody waits for', async () => {
      const { db, ids } = service.store;
      const add = async (kind: string, minutesAgo: number, isAwaited = false, claim: string | null = null) => {
        const id = ids.next() - BigInt(minutesAgo * 60_000 * 2 ** 22);
        const job = { id: isAwaited ? -id : id, kind, subject_id: ids.next(), account_id: 1n, lane: null, tries: 0 };
        const claimed = { claim, holder: claim, claimed_until: null, cancelled: 0 };
        const row = {
          ...job,
          ...claimed,
          run_after: 0n,
          priority: 0,
          named_blobs: null,
          stored_blob: null,
          stored_bytes: null,
          tags: '',
        };
        await db.transaction((trx) => trx.insertInto('jobs').values(row).execute());
      };
      const shown = async () => {
        const { waiting, running, oldest_seconds: oldest } = (await operator.get('/queue')).record;
        return [waiting, running, Math.floor(Number(oldest) / 60)];
      };
      await add('deliver', 50);
      await add('pack_log', 40);
      await add('deliver', 45, false, 'of a server');
      assert.deepEqual(await shown(), [0, 0, 0]);
      const { queue } = (await service.api.get('/healthz')).body as unknown as { queue: Record<string, number> };
      assert.deepEqual(queue, { waiting: 0, running: 0, oldest_seconds: 0 });
      await add('fetch_commit', 60, false, 'of a runner');
      await add('run_suite', 10);
      assert.deepEqual(await shown(), [1, 1, 10]);
      await add('check_connection', 20, true);
      assert.deepEqual(await shown(), [2, 1, 20]);
      await add('run_newer_suite', 30);
      assert.deepEqual(await shown(), [3, 1, 30]);
      await db.transaction((trx) => trx.deleteFrom('jobs').execute());
    });

    test('says how much work there is, by tag too, and how many runners are connected', async () => {
      assert.deepEqual((await operator.get('/queue')).record, {
        waiting: 0,
        running: 0,
        oldest_seconds: 0,
        runners: 0,
        by_tag: {},
      });
      const project = await operator.createProject();
      await operator.createSuite(project, { 'tags[]': 'gpu' });
      await operator.createSuite(project, { 'tags[]': 'gpu arm' });
      await operator.createSuite(project);
      const { ref } = await addCommit(service.store, project);
      await operator.post(`/projects/${project.id}/build_requests`, { commit_ref: ref });
      const far = await registered(service);
      const tagged = linkWith(service, far.token, { tags: 'arm,gpu' });
      assert.ok(await tagged.next({ claim: randomName() }, patient));
      await service.store.db.transaction((trx) =>
        trx
          .updateTable('jobs')
          .set({ id: (of) => of('id', '-', 10_000n << 22n) })
          .where('tags', '=', 'arm,gpu')
          .execute(),
      );
      const { record } = await asked(`Bearer ${token}`);
      assertFields(record, 'waiting running oldest_seconds runners by_tag');
      assert.deepEqual([record.waiting, record.running, record.runners], [2, 1, 1]);
      assert.deepEqual(record.by_tag, { arm: 1, gpu: 1 });
      assert.ok(
        Number(record.oldest_seconds) >= 10 && Number(record.oldest_seconds) < 60,
        String(record.oldest_seconds),
      );
      // What is put off is for nobody now.
      await service.store.db.transaction((trx) =>
        trx
          .updateTable('jobs')
          .set({ run_after: BigInt(Date.now() + 60_000) })
          .where('tags', '=', 'arm,gpu')
          .execute(),
      );
      const later = (await operator.get('/queue')).record;
      assert.deepEqual([later.waiting, later.by_tag], [1, {}]);
      for (const link of [far.link, tagged]) link.close();
    });

    test('is for operators and for who has the metrics token', async () => {
      const person = await service.user();
      const unauthorized = { generic: ['unauthorized' as const] };
      const far = await registered(service);
      assertRefused(await person.get('/queue'), 401, unauthorized);
      assertRefused(await service.api.get('/queue'), 401, unauthorized);
      for (const wrong of [`Bearer ${token}x`, 'Bearer', `Basic ${token}`, `Bearer ${far.token}`])
        assertRefused(await asked(wrong), 401, unauthorized);
      assert.equal((await asked(`Bearer ${token}`)).status, 200);
      for (const other of ['/runners', '/operations', '/whoami'])
        assertRefused(
          await service.api.get(other, { headers: { authorization: `Bearer ${token}` } }),
          401,
          unauthorized,
        );
      far.link.close();
    });
  },
  { settings: { metrics_token: token } },
);
