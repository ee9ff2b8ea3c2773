import { doomSent, doomStoredUnder } from '../db/doomed-blobs.ts';
import type { Queries, Transaction } from '../db/open.ts';
import { sealIn } from '../db/sealing.ts';
import { sealedLocation, type BuildRow, type StepPointRow } from '../db/schema.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import type { Vault } from '../../shared/lib/vault.ts';
import { releaseStored } from '../queue/claimed-blobs.ts';
import type { ClaimedJob } from '../queue/leases.ts';

/**
 * The points at which builds go on after a lost runner: the files as a blob, and what the runner knows, encrypted. A
 * build has its last point only. The next attempt keeps the one that it began at until it has its own. The points are
 * written under the lock of the build's job, and dropped when no attempt can need them.
 */

/** What runners tell each other of a point. */
interface Sealed {
  done: unknown;
  facts: string;
}

const placeOf = (id: bigint): string => sealedLocation({ table: 'step_points', column: 'facts' }, id);

/** Whether the next attempt at a suite may go on where a lost one was. */
export function resumes({ resume, steps }: { resume?: number; steps: string }): boolean {
  return resume === 1 && (JSON.parse(steps) as unknown[]).length > 1;
}

export async function hasPoints(db: Queries, build: bigint): Promise<boolean> {
  const found = db.selectFrom('builds').select('id').where('id', '=', build).where('resume', '=', 1);
  return (await found.executeTakeFirst()) !== undefined;
}

/** The caller has locked the runner's job. */
export async function notePoint(
  { trx, ids, vault }: { trx: Transaction; ids: IdSource; vault: Vault },
  job: ClaimedJob,
  { digest, step, done, facts }: { digest: string; step: string } & Sealed,
): Promise<{ taken: true } | { gone: true }> {
  const builds = trx.selectFrom('builds').select(['id', 'project_id', 'resume', 'from_build']);
  const build = await builds.where('id', '=', job.subject_id).executeTakeFirst();
  if (build?.resume !== 1 || job.cancelled === 1) return { gone: true };
  const before = await findPoint(trx, build.id);
  const isSame = before?.digest === digest;
  // A runner cannot choose a blob. Otherwise it could name another account's blob.
  if (!isSame && digest !== job.stored_blob) return { gone: true };
  const known = isSame ? before : { tree: ids.next(), size: job.stored_bytes ?? 0n };
  const text = JSON.stringify({ done, facts } satisfies Sealed);
  const row: StepPointRow = {
    id: build.id,
    project_id: build.project_id,
    tree: known.tree,
    digest,
    size: known.size,
    step,
    facts: await sealIn(trx, vault, text, placeOf(build.id)),
  };
  const { id: _, ...changed } = row;
  await trx
    .insertInto('step_points')
    .values(row)
    .onConflict((conflict) => conflict.column('id').doUpdateSet(changed))
    .execute();
  if (digest === job.stored_blob) await releaseStored(trx, job);
  // Replaced files count as the account's until they are removed, so that points cannot fill the disk.
  if (before && !isSame)
    await doomStoredUnder(trx, {
      account_id: job.account_id,
      claim: null,
      stored_blob: before.digest,
      stored_bytes: before.size,
    });
  if (build.from_build !== null) await drop(trx, [build.from_build]);
  return { taken: true };
}

export async function findPoint(db: Queries, build: bigint): Promise<StepPointRow | undefined> {
  return db.selectFrom('step_points').selectAll().where('id', '=', build).executeTakeFirst();
}

/** The point of a lost build, or else the one at which it began itself. */
export async function lastPoint(
  db: Queries,
  { id, from_build: from }: Pick<BuildRow, 'id' | 'from_build'>,
): Promise<Pick<BuildRow, 'from_step' | 'from_build'> | undefined> {
  const found = (await findPoint(db, id)) ?? (from === null ? undefined : await findPoint(db, from));
  return found && { from_step: found.step, from_build: found.id };
}

/** The build is over, and none follows it that goes on. */
export async function dropPoints(
  trx: Transaction,
  { id, resume, from_build: from }: Pick<BuildRow, 'id' | 'resume' | 'from_build'>,
): Promise<void> {
  if (resume === 1) await drop(trx, from === null ? [id] : [id, from]);
}

async function drop(trx: Transaction, ids: readonly bigint[]): Promise<void> {
  const dropped = await trx.deleteFrom('step_points').where('id', 'in', ids).returning('digest').execute();
  await doomSent(trx, ...dropped.map(({ digest }) => digest));
}

export function openPoint(
  vault: Vault,
  { id, tree, digest, size, facts }: StepPointRow,
): { files: { name: string; digest: string; bytes: number } } & Sealed {
  const opened = JSON.parse(vault.open(facts, placeOf(id))) as Sealed;
  return { files: { name: String(tree), digest, bytes: Number(size) }, ...opened };
}

/** Files of points, each as the text `PROJECT TREE`. */
export async function pointsIn(db: Queries, trees: readonly bigint[]): Promise<Set<string>> {
  if (trees.length === 0) return new Set();
  const found = db.selectFrom('step_points').select(['project_id', 'tree']).where('tree', 'in', trees);
  return new Set((await found.execute()).map(({ project_id: project, tree }) => `${project} ${tree}`));
}
