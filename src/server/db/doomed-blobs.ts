import { sql, type Expression } from 'kysely';
import type { Transaction } from './open.ts';
import type { DoomedBlobRow } from './rows/logs.ts';

/* Unreferenced blobs, noted for early removal. The removal checks for other references. */

/**
 * A message may refer to a blob some time after it was stored, and two runners may send the same blob. A blob is
 * young for this long after the last of these.
 */
export const youngMs = 5 * 60_000;

type StoredFor = Pick<DoomedBlobRow, 'account_id' | 'claim' | 'bytes'>;
const nobody: StoredFor = { account_id: null, claim: null, bytes: 0n };

export async function doomBlob(
  trx: Transaction,
  digest: string,
  removeAfter = 0,
  storedFor: StoredFor = nobody,
): Promise<void> {
  await trx
    .insertInto('doomed_blobs')
    .values({ digest, remove_after: BigInt(removeAfter), ...storedFor })
    .onConflict((conflict) => conflict.column('digest').doNothing())
    .execute();
}

export async function doomSent(trx: Transaction, ...digests: string[]): Promise<void> {
  for (const digest of [...new Set(digests)].toSorted()) await doomBlob(trx, digest, Date.now() + youngMs);
}

export interface Stored {
  account_id: bigint;
  claim: string | null;
  stored_blob: string | null;
  stored_bytes: bigint | null;
}

export async function doomStoredUnder(
  trx: Transaction,
  { stored_blob: digest, stored_bytes: size, account_id: account, claim }: Stored,
): Promise<void> {
  if (digest === null) return;
  await doomBlob(trx, digest, Date.now() + youngMs, { account_id: account, claim, bytes: size ?? 0n });
}

export async function doomLogsOf(trx: Transaction, projectId: bigint): Promise<void> {
  const logs = trx.selectFrom('logs').select('blob as digest').where('blob', 'is not', null);
  await doomFound(trx, logs.where('project_id', '=', projectId).$castTo<{ digest: string }>(), 0);
}

export async function doomArtifactsOf(trx: Transaction, buildId: bigint): Promise<void> {
  const files = trx.selectFrom('artifacts').select('sha256 as digest').where('build_id', '=', buildId);
  await doomFound(trx, files, Date.now() + youngMs);
}

export async function doomStoredFor(trx: Transaction, subjects: Expression<bigint>): Promise<void> {
  const stored = trx.selectFrom('jobs').select(['stored_blob', 'stored_bytes', 'account_id', 'claim']);
  const found = stored.where('stored_blob', 'is not', null).where('subject_id', 'in', subjects as never);
  for (const row of await found.execute()) await doomStoredUnder(trx, row);
}

async function doomFound(trx: Transaction, found: Expression<{ digest: string }>, removeAfter: number): Promise<void> {
  await sql`
    insert into doomed_blobs (digest, remove_after)
    select distinct digest, cast(${BigInt(removeAfter)} as bigint) from (${found}) as found where true order by digest
    on conflict (digest) do nothing
  `.execute(trx);
}

export async function spareBlob(trx: Transaction, digest: string): Promise<void> {
  await trx.deleteFrom('doomed_blobs').where('digest', '=', digest).execute();
}
