import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { migrate, migrateWithin } from '../../src/db/migrate.ts';
import type { Transaction } from '../../src/db/open.ts';
import { onEveryDatabase } from '../support/databases.ts';

/** As a program left them that followed everybody's dependencies. */
async function addUses(trx: Transaction): Promise<void> {
  const put = (table: Parameters<Transaction['insertInto']>[0], row: Record<string, unknown>) =>
    trx.insertInto(table).values(row).execute();
  const texts = (...names: string[]) => Object.fromEntries(names.map((name) => [name, '']));
  for (const id of [1n, 2n]) {
    const user = { email: `${id}@example.org`, kind: 'user', billing: 'ok', suspended: 0, created_at: 5n - id };
    await put('users', { id, ...user });
  }
  await put('users', {
    id: 3n,
    email: '3@example.org',
    kind: 'collaborator',
    billing: 'ok',
    suspended: 0,
    created_at: 0n,
  });
  const project = texts('name', 'description', 'repository_url', 'build_state', 'ssh_public_key', 'ssh_private_key');
  await put('projects', { id: 1n, owner_id: 1n, created_at: 0n, ...project });
  await put('suites', { id: 1n, project_id: 1n, ...texts('name', 'description', 'command') });
  const described = texts('description', 'command', 'prefix', 'source');
  const dependency = (id: bigint, owner: bigint) =>
    put('dependencies', {
      ...described,
      id,
      owner_id: owner,
      name: `d${id}`,
      state: 'shared',
      created_at: 0n,
      launch_command: `launch ${id}`,
      result: `digest ${id}`,
      result_prefix: `/opt/${id}`,
    });
  for (const [id, owner] of [
    [10n, 1n],
    [20n, 2n],
    [21n, 2n],
    [22n, 2n],
  ] as const)
    await dependency(id, owner);
  const relation = (id: bigint, of: bigint, related: bigint) =>
    put('dependency_relations', { id, dependency_id: of, related_id: related });
  await relation(1n, 20n, 21n);
  await relation(2n, 21n, 22n);
  await relation(3n, 22n, 20n); // in a circle, which no program let anybody make
  await relation(4n, 10n, 22n);
  for (const [id, of] of [
    [1n, 10n],
    [2n, 20n],
  ] as const) {
    await put('suite_dependencies', { id, suite_id: 1n, dependency_id: of });
  }
}

describe('an upgrade', () => {
  onEveryDatabase((database) => {
    test('pins what is used of others to what it is, and makes the oldest user an operator', async () => {
      const db = await database.openEmpty();
      await db.transaction(async (trx) => {
        await migrateWithin(trx, database.kind, (name) => name < '0008');
        await addUses(trx);
      });
      await migrate(db);
      const pins = await db.read.selectFrom('dependency_pins').selectAll().execute();
      const told = pins
        .map((pin) => ({
          ...pin,
          use: pin.relation_id === null ? `suite ${pin.suite_dependency_id}` : `of ${pin.relation_id}`,
        }))
        .toSorted((a, b) => a.use.localeCompare(b.use) || a.position - b.position)
        .map(({ use, name, digest, prefix, launch_command: launch }) => [use, name, digest, prefix, launch].join(' '));
      assert.deepEqual(told, [
        'of 4 d21 digest 21 /opt/21 ',
        'of 4 d20 digest 20 /opt/20 ',
        'of 4 d22 digest 22 /opt/22 launch 22',
        'suite 2 d22 digest 22 /opt/22 ',
        'suite 2 d21 digest 21 /opt/21 ',
        'suite 2 d20 digest 20 /opt/20 launch 20',
      ]);
      const users = await db.read.selectFrom('users').select(['id', 'operator']).orderBy('id').execute();
      assert.deepEqual(
        users.map(({ operator }) => operator),
        [0, 1, 0],
      );
    });
  });
});
