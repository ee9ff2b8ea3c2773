import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startForgeUpkeep } from '../../../src/server/forges/upkeep.ts';
import { FakeForge } from '../../support/fake-forge.ts';
import { growingPauses } from '../../support/pauses.ts';
import { describeService } from '../../support/service.ts';

const hour = 60 * 60 * 1000;

describeService(
  'a server that finds the times at a forge ahead of its clock',
  (service) => {
    test('does what is due, as if the clock had never been wrong', async () => {
      await using forge = await FakeForge.start('gitea', 'team/app');
      const alice = await service.user();
      const { id } = (await alice.post('/forges', forge.fields)).record;
      const { record: project } = await alice.post('/projects', { forge_id: id, repository: 'team/app' });
      const { db } = service.store;
      const ahead = BigInt(Date.now() + 48 * hour);
      const forges = () =>
        db.read.selectFrom('forges').select('held_until').where('id', '=', id).executeTakeFirstOrThrow();
      const checks = () =>
        db.read.selectFrom('projects').select('forge_check_at').where('id', '=', project.id).executeTakeFirstOrThrow();
      await db.transaction(async (trx) => {
        await trx.updateTable('forges').set({ held_until: ahead }).where('id', '=', id).execute();
        await trx.updateTable('projects').set({ forge_check_at: ahead }).where('id', '=', project.id).execute();
      });
      const trouble = (error: unknown): void => assert.fail(String(error));
      const upkeep = startForgeUpkeep({ ...service.store, onError: trouble });
      for (const wait = growingPauses(); (await forges()).held_until === ahead; await wait());
      await upkeep.close();
      // A lease that another server may have at this moment ends as soon as any other.
      const soon = BigInt(Date.now() + hour / 4);
      assert.ok((await forges()).held_until < soon);
      assert.ok(Number((await checks()).forge_check_at) < Date.now() + 30 * hour);
    });
  },
  { settings: { webhook_allow: '127.0.0.0/8' } },
);
