import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Database } from '../../../src/server/db/open.ts';
import type { ShellRow } from '../../../src/server/db/schema.ts';
import { deleteProject } from '../../../src/server/lifecycle/projects.ts';
import { endShell, forgetOldShells, noteRunner, takeShells } from '../../../src/server/outputs/shells.ts';
import type { Record_ } from '../../support/client.ts';
import { addBuild, addCommit } from '../../support/rows.ts';
import { describeService, type Service } from '../../support/service.ts';
import { addKept } from '../../support/shells.ts';
import type { User } from '../../support/user.ts';

const rounds = 12;
const shellsEach = 8;
const hour = 60 * 60 * 1000;

/**
 * Everything that locks kept files and shells, at once. Transactions that wait for each other in a circle are broken off
 * and begun anew, so one that is begun twice shows that somebody keeps to another order.
 */
describeService('kept files and shells', (service) => {
  test('are locked by all in one order', async () => {
    const owner = await service.user();
    for (let round = 0; round < rounds; round += 1) {
      const { project, location, holder, shells } = await opened(service, owner);
      const { store } = service;
      const begun: string[] = [];
      const counting = (name: string): Database => ({
        ...store.db,
        transaction: (work) =>
          store.db.transaction(async (trx) => {
            begun.push(name);
            return work(trx);
          }),
      });
      const inOne = async (name: string, work: (db: Database, trx: never) => Promise<unknown>): Promise<void> => {
        const db = counting(name);
        await db.transaction((trx) => work(db, trx as never));
      };
      const take = (name: string) =>
        inOne(name, (_, trx) => takeShells(trx, store.vault, { location, holder, running: [], room: shellsEach }));
      const [first, second] = shells;
      assert.ok(second);
      await Promise.all([
        take('first take'),
        inOne('delete', (db, trx) => deleteProject({ ...store, db, trx }, project.id)),
        take('second take'),
        inOne('end', (db, trx) => endShell({ db, trx }, first?.id ?? 0n, 'closed')),
        noteRunner(counting('note'), { ...second, runner_seen_at: 0n }),
        forgetOldShells(counting('forget'), Date.now() + (round % 2) * 48 * hour),
        forgetOldShells(counting('forget elsewhere'), Date.now() + (round % 2) * 48 * hour),
      ]);
      assert.deepEqual(begun.toSorted(), [...new Set(begun)].toSorted(), `round ${round}`);
      assert.equal((await store.db.read.selectFrom('shells').select('id').execute()).length, 0);
    }
  });
});

/** A project with a failed build, in whose files somebody has opened many shells. */
async function opened(service: Service, owner: User) {
  const { store } = service;
  const project = await owner.createProject();
  const suite = await owner.createSuite(project);
  const commit = await addCommit(store, project);
  const buildRequest = await owner.requestBuild(project);
  const build = await addBuild(store, project, { commit, buildRequest, suite }, { build_state: 'failed' });
  const { location, holder } = await addKept(store, { path: (name) => idFor(name, project, build.id) });
  const now = BigInt(Date.now());
  const users = store.db.read.selectFrom('users').select('id').where('email', '=', owner.email);
  const { id: account } = await users.executeTakeFirstOrThrow();
  const shells = Array.from({ length: shellsEach }, (): ShellRow => ({
    id: store.ids.next(),
    project_id: project.id,
    build_id: build.id,
    account_id: account,
    via: 'api_key',
    location,
    state: 'waiting',
    reason: '',
    created_at: now,
    expires_at: now + BigInt(hour),
    client_seen_at: now,
    runner_seen_at: now,
    sees_limited: 0,
  }));
  // Whoever does not sort them finds the newest first.
  await store.db.transaction((trx) => trx.insertInto('shells').values(shells.toReversed()).execute());
  return { project, location, holder, shells };
}

function idFor(name: string, project: Record_, build: bigint): string {
  return String(name === ':build_id' ? build : project.id);
}
