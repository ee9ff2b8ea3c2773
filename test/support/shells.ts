import { recordHeartbeat } from '../../src/server/auth/runner-heartbeats.ts';
import { findUser } from '../../src/server/auth/users.ts';
import type { CallDeps } from '../../src/server/api/call.ts';
import { sealIn } from '../../src/server/db/sealing.ts';
import { sealedLocation, type KeptBuildRow, type ShellRow } from '../../src/server/db/schema.ts';
import { repeatedly } from '../../src/shared/lib/repeatedly.ts';
import type { CleanUp } from './folders.ts';

const location = 'a-location-without-a-runner';
const holder = 'local nowhere';
const hour = 60n * 60n * 1000n;

interface Place {
  path(route: string): string;
}

/** The files of the build in a world are kept by a runner. */
export async function addKept({ db, vault }: CallDeps, place: Place): Promise<KeptBuildRow> {
  const id = BigInt(place.path(':build_id'));
  const sealed = sealedLocation({ table: 'kept_builds', column: 'key' }, id);
  return db.transaction(async (trx) => {
    const row: KeptBuildRow = {
      id,
      project_id: BigInt(place.path(':project_id')),
      location,
      holder,
      name: 'name-of-the-files',
      key: await sealIn(trx, vault, '00'.repeat(32), sealed),
      expires_at: BigInt(Date.now()) + hour,
      for_suites: 0,
      free_since: null,
      digest: null,
      size: null,
      packable: 1,
    };
    await trx
      .insertInto('kept_builds')
      .values(row)
      .onConflict((conflict) => conflict.column('id').doNothing())
      .execute();
    return row;
  });
}

/** A shell that somebody opened there, and whose runner has gone. */
export async function addShell(store: CallDeps, place: Place, email: string): Promise<ShellRow> {
  const kept = await addKept(store, place);
  const { db, ids } = store;
  const user = await findUser(db.read, email);
  if (!user) throw new Error(`nobody has the address ${email}`);
  const now = BigInt(Date.now());
  const row: ShellRow = {
    id: ids.next(),
    project_id: kept.project_id,
    build_id: kept.id,
    account_id: user.id,
    via: 'api_key',
    location,
    state: 'open',
    reason: '',
    created_at: now,
    expires_at: kept.expires_at,
    client_seen_at: now,
    runner_seen_at: 0n,
    sees_limited: 1,
  };
  await db.transaction((trx) => trx.insertInto('shells').values(row).execute());
  return row;
}

/**
 * The runner is there, and stays so until the end of the block: one that is not seen for some seconds counts as away,
 * and a slow test takes longer.
 */
export async function staysThere(
  { db }: Pick<CallDeps, 'db'>,
  { afterwards }: { afterwards: (cleanUp: CleanUp) => void },
  runner: { holder: string } = { holder },
): Promise<void> {
  const beat = (): Promise<void> => recordHeartbeat(db, runner, { version: '', trouble: '' });
  await beat();
  const beating = repeatedly(5000, beat, () => {});
  afterwards(() => beating.stop());
}

/** The build in a world has failed, and the runner that has its files is there. */
export async function failAndKeep(store: CallDeps, place: Place): Promise<void> {
  const { id } = await addKept(store, place);
  await store.db.transaction((trx) =>
    trx.updateTable('builds').set({ build_state: 'failed' }).where('id', '=', id).execute(),
  );
  await recordHeartbeat(store.db, { holder }, { version: '', trouble: '' });
}
