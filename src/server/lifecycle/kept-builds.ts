import type { ExpressionBuilder } from 'kysely';
import type { Database, Queries, Transaction } from '../db/open.ts';
import { sealIn } from '../db/sealing.ts';
import { sealedLocation, type BuildRequestRow, type BuildRow, type KeptBuildRow, type Schema } from '../db/schema.ts';
import type { Vault } from '../../shared/lib/vault.ts';
import { enqueue } from '../queue/queue.ts';
import { lenders, lentNames } from './lent-files.ts';
import { ownRefs } from './own-refs.ts';
import { buildRequestMachine, isFinal, type BuildRequestState } from './states.ts';
import type { WriteContext } from './write-context.ts';

/** The build that made what a build shows. */
export function provedBy({ id, reused_from_id: source }: Pick<BuildRow, 'id' | 'reused_from_id'>): bigint {
  return source ?? id;
}

/**
 * Files of builds that runners keep, for shells or for other suites of the request. The database has the key to the
 * runner's record of the build. Files for other suites stay until their request is over, and some hours longer for
 * restarts. If another runner needs them, they are packed once and are then a blob as well.
 */

const hour = 60 * 60 * 1000;
const mostAtOnce = 1000;

export const packFilesKind = 'pack_files';
/** Due time of a job that only one runner may take. For all other runners the job is never due. */
export const never = Number.MAX_SAFE_INTEGER;

export interface KeptFiles {
  location: string;
  name: string;
  key: string;
}

export const openable: ReadonlySet<string> = new Set(['failed', 'timed_out', 'errored']);

const keyLocation = (id: bigint): string => sealedLocation({ table: 'kept_builds', column: 'key' }, id);

export function openKey(vault: Vault, { id, key }: Pick<KeptBuildRow, 'id' | 'key'>): string {
  return vault.open(key, keyLocation(id));
}

interface Keeping {
  buildId: bigint;
  holder: string;
  /** Hours during which a shell can be opened in the files; 0 for none. */
  hours: number;
  forSuites: boolean;
  files: KeptFiles;
}

/** Reported once, together with the end of the build. */
export async function noteKept(
  { trx }: WriteContext,
  vault: Vault,
  { buildId, holder, hours, forSuites, files }: Keeping,
): Promise<void> {
  const builds = trx.selectFrom('builds').select(['project_id', 'build_state']).where('id', '=', buildId);
  const build = await builds.executeTakeFirst();
  if (!build) return;
  const isOpenable = openable.has(build.build_state) && hours > 0;
  if (!isOpenable && !forSuites) return;
  const key = await sealIn(trx, vault, files.key, keyLocation(buildId));
  const row: KeptBuildRow = {
    id: buildId,
    project_id: build.project_id,
    ...files,
    key,
    holder,
    expires_at: BigInt(isOpenable ? Date.now() + hours * hour : 0),
    for_suites: forSuites ? 1 : 0,
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
}

export async function findFilesForShell(
  db: Queries,
  buildId: bigint,
  now = Date.now(),
): Promise<KeptBuildRow | undefined> {
  const kept = db.selectFrom('kept_builds').selectAll().where('id', '=', buildId);
  return kept.where('expires_at', '>', BigInt(now)).executeTakeFirst();
}

export async function findFilesForSuite(
  db: Queries,
  buildId: bigint,
  hours: number,
): Promise<KeptBuildRow | undefined> {
  const kept = await db
    .selectFrom('kept_builds')
    .selectAll()
    .where('id', '=', buildId)
    .where('for_suites', '=', 1)
    .executeTakeFirst();
  const isOver = kept && kept.free_since !== null && Number(kept.free_since) + hours * hour <= Date.now();
  return isOver ? undefined : kept;
}

export type TakingBuild = Pick<BuildRow, 'build_request_id' | 'files_from' | 'lent_from' | 'variant'>;

/** A build that another one takes files of, in all its attempts, newest first. */
export interface Giver {
  attempts: readonly BuildRow[];
  /** Its files are beside the checkout, not instead of it. */
  isLent: boolean;
}

/** A build takes the files of a suite in its own variant or without one, or else those of all variants of some suites. */
export async function findGivers(db: Queries, build: TakingBuild): Promise<Giver[]> {
  const attemptsAt = async (suite: string): Promise<BuildRow[]> => findAttempts(db, build.build_request_id, suite);
  if (build.files_from !== '') {
    const attempts = await attemptsAt(build.files_from);
    return [{ attempts: attempts.filter(({ variant }) => variant === '' || variant === build.variant), isLent: false }];
  }
  const lent = await Promise.all(lentNames(build).map(attemptsAt));
  const byVariant = lent.flatMap((attempts) => Array.from(Map.groupBy(attempts, ({ variant }) => variant).values()));
  return byVariant.map((attempts) => ({ attempts, isLent: true }));
}

/**
 * They are from the build's own request, or else from the request that it joined. Files from the joined request must
 * not depend on variables that are limited to other refs.
 */
async function findAttempts(db: Queries, request: bigint, suite: string): Promise<BuildRow[]> {
  const attempts = await db
    .selectFrom('builds')
    .selectAll()
    .where((where) =>
      where.or([
        where('build_request_id', '=', request),
        where('build_request_id', '=', (of) =>
          of.selectFrom('build_requests').select('joined_to_id').where('id', '=', request),
        ),
      ]),
    )
    .where('suite_name', '=', suite)
    .orderBy('attempt', 'desc')
    .orderBy('id')
    .execute();
  const own = attempts.filter(({ build_request_id: by }) => by === request);
  if (own.length > 0) return own;
  for (const attempt of attempts) if (!(await mayGive(db, attempt, request))) return [];
  return attempts;
}

/**
 * Whether a request may use the files of another request's build. That build, and each build whose files it had, must
 * have had no variables limited to other refs.
 */
async function mayGive(db: Queries, build: BuildRow, to: bigint): Promise<boolean> {
  const builds = db.selectFrom('builds').selectAll();
  const all = new Map([[build.id, build]]);
  for (const one of all.values()) {
    const sources = [...(one.files_of === null ? [] : [one.files_of]), ...lenders(one)].filter((id) => !all.has(id));
    if (sources.length > 0) for (const row of await builds.where('id', 'in', sources).execute()) all.set(row.id, row);
  }
  const limited = Array.from(all.values()).filter((one) => one.limited !== '[]');
  if (limited.length === 0) return true;
  const requests = db.selectFrom('build_requests').selectAll();
  const taking = await requests.where('id', '=', to).executeTakeFirstOrThrow();
  const own = ownRefs(taking, { branches: '[]' });
  for (const { build_request_id: id } of limited) {
    const giving = await requests.where('id', '=', id).executeTakeFirstOrThrow();
    if (!own.includes(giving.fetched_as)) return false;
  }
  return true;
}

/** Includes the holder: a copied machine has the original's location, and would get the same job again and again. */
export function locationOf({ holder, location }: Pick<KeptBuildRow, 'holder' | 'location'>): string {
  return `${holder} ${location}`;
}

export async function findFilesLocation(db: Queries, build: TakingBuild): Promise<string | undefined> {
  const [giver] = await findGivers(db, build);
  const first = giver?.attempts[0];
  const kept = db
    .selectFrom('kept_builds')
    .select(['holder', 'location'])
    .where('id', '=', first ? provedBy(first) : 0n);
  const found = await kept.where('for_suites', '=', 1).executeTakeFirst();
  return found && locationOf(found);
}

/**
 * Requests a pack, unless one is under way or impossible. It runs last, because the end of a transaction also locks the
 * request and project of an ending build (db/lock-order.ts).
 */
export function askForPack(
  { db, trx, ids }: WriteContext,
  kept: Pick<KeptBuildRow, 'id' | 'holder' | 'location' | 'packable'>,
  { account_id: accountId }: { account_id: bigint },
): void {
  const { id } = kept;
  if (kept.packable === 0) return;
  db.atEnd(trx, async () => {
    await db.holdRight(trx, 'packing', id); // of two callers at the same time, the second finds the job of the first
    const jobs = trx.selectFrom('jobs').select('id').where('subject_id', '=', id).where('kind', '=', packFilesKind);
    if (await jobs.executeTakeFirst()) return;
    const location = locationOf(kept);
    await enqueue(db, trx, ids, { kind: packFilesKind, subjectId: id, accountId, location, runAfter: never });
  });
}

/** Without `blob`, the files cannot be packed. */
export async function notePacked(trx: Transaction, id: bigint, blob?: { digest: string; size: bigint }): Promise<void> {
  await trx
    .updateTable('kept_builds')
    .set(blob ?? { packable: 0 })
    .where('id', '=', id)
    .execute();
}

/** A transaction that changes builds afterwards must lock their request first. */
export async function forgetKept(trx: Transaction, id: bigint): Promise<void> {
  await trx.deleteFrom('kept_builds').where('id', '=', id).execute();
}

/**
 * Sorts the names of files that a runner keeps for other suites. `gone` are unknown to the database, `needed` are still
 * needed.
 */
export async function checkKeptFiles(
  db: Queries,
  { location, names, holder }: { location: string; names: readonly string[]; holder: string },
): Promise<{ gone: string[]; needed: string[] }> {
  const rows = await db
    .selectFrom('kept_builds')
    .select(['name', 'free_since'])
    .where('location', '=', location)
    .where('holder', '=', holder)
    .where('name', 'in', names)
    .execute();
  const known = new Map(rows.map(({ name, free_since: since }) => [name, since]));
  return { gone: names.filter((name) => !known.has(name)), needed: names.filter((name) => known.get(name) === null) };
}

/** Builds with packed files, each as the text `PROJECT BUILD`. */
export async function packedOf(db: Queries, builds: readonly bigint[]): Promise<Set<string>> {
  if (builds.length === 0) return new Set();
  const found = db.selectFrom('kept_builds').select(['id', 'project_id']).where('id', 'in', builds);
  const rows = await found.where('digest', 'is not', null).execute();
  return new Set(rows.map(({ id, project_id: project }) => `${project} ${id}`));
}

/** A request may also need files of the request that it joined. */
export async function freeFiles(
  trx: Transaction,
  { id, joined_to_id: first }: Pick<BuildRequestRow, 'id' | 'joined_to_id'>,
  isOver: boolean,
): Promise<void> {
  const requests = trx.selectFrom('build_requests').select(['id', 'build_state']);
  const leading = first === null ? undefined : await requests.where('id', '=', first).executeTakeFirst();
  const isNeeded = leading && isOver && !isFinal(buildRequestMachine, leading.build_state as BuildRequestState);
  const concerned = leading && !isNeeded ? [id, leading.id] : [id];
  const builds = trx
    .selectFrom('builds')
    .select((of) => of.fn.coalesce('reused_from_id', 'id').as('id'))
    .where('build_request_id', 'in', concerned);
  await trx
    .updateTable('kept_builds')
    .set({ free_since: isOver ? BigInt(Date.now()) : null })
    .where('for_suites', '=', 1)
    .where('id', 'in', builds)
    .where('free_since', isOver ? 'is' : 'is not', null)
    .$if(isOver, (some) => some.where((kept) => kept.not(kept.exists(othersUsing(kept, concerned)))))
    .execute();
}

/** Builds of other unfinished requests that were passed because of the build with these files. */
function othersUsing(of: ExpressionBuilder<Schema, 'kept_builds'>, requests: readonly bigint[]) {
  return of
    .selectFrom('builds as reused')
    .innerJoin('build_requests as using', 'using.id', 'reused.build_request_id')
    .select('reused.id')
    .whereRef('reused.reused_from_id', '=', 'kept_builds.id')
    .where('using.id', 'not in', requests)
    .where(
      'using.build_state',
      'in',
      buildRequestMachine.states.filter((state) => !isFinal(buildRequestMachine, state)),
    );
}

/** For a request that begins to need the files of another request's build. False if they are gone. */
export async function useAgain(trx: Transaction, id: bigint): Promise<boolean> {
  const kept = trx.updateTable('kept_builds').set({ free_since: null }).where('id', '=', id);
  return (await kept.where('for_suites', '=', 1).executeTakeFirst()).numUpdatedRows === 1n;
}

export async function forgetOldKept(db: Database, filesHours: number, now = Date.now()): Promise<void> {
  await db.transaction(async (trx) => {
    const old = trx
      .selectFrom('kept_builds')
      .select('id')
      .where('expires_at', '<=', BigInt(now))
      .where((where) =>
        where.or([where('for_suites', '=', 0), where('free_since', '<=', BigInt(now - filesHours * hour))]),
      )
      .limit(mostAtOnce);
    const ids = (await db.skipLocked(old, 'kept_builds').execute()).map(({ id }) => id);
    if (ids.length === 0) return;
    // The database deletes shells with their files, in any order, so they are locked first (db/lock-order.ts).
    const theirs = trx.selectFrom('shells').select('id').where('build_id', 'in', ids).orderBy('id');
    await db.locked(theirs, 'shells').execute();
    await trx.deleteFrom('kept_builds').where('id', 'in', ids).execute();
  });
}
