import { sql, type RawBuilder, type SqlBool } from 'kysely';
import { isHolderAlive } from '../auth/runner-heartbeats.ts';
import type { Queries } from '../db/open.ts';
import type { BuildRow, KeptBuildRow } from '../db/schema.ts';
import { holdWithFirst } from '../lifecycle/apply-rollup.ts';
import { advanceBuild } from '../lifecycle/builds.ts';
import {
  askForPack,
  findGivers,
  findFilesForSuite,
  forgetKept,
  openKey,
  provedBy,
  locationOf,
} from '../lifecycle/kept-builds.ts';
import { lenders, takesFiles } from '../lifecycle/lent-files.ts';
import { noteFiles } from '../lifecycle/held-back.ts';
import { needAgain } from '../lifecycle/needed-again.ts';
import type { FilesOrder, KeepOrder, LentOrder } from '../../shared/protocol/index.ts';
import type { ClaimedJob } from '../queue/leases.ts';
import { addLine } from '../streams/logs.ts';
import type { Asker, Elsewhere, JobContext } from './job-handler.ts';

const checkAgainMs = 10_000;
const packingMs = 1000;

interface Ordered {
  files?: FilesOrder;
  /** The build that left them. */
  filesOf?: bigint;
  lent?: LentOrder[];
}

/** Undefined if the build does not start now. */
export async function filesOrder(
  context: JobContext,
  job: ClaimedJob,
  build: BuildRow,
  asker: Asker,
): Promise<Ordered | Elsewhere | undefined> {
  if (!takesFiles(build)) return {};
  const { db, trx } = context;
  // A suite that does not run in this request leaves nothing.
  const givers = (await findGivers(trx, build)).filter(({ attempts }) => attempts.length > 0);
  const ready: [kept: KeptBuildRow, order: FilesOrder, from: BuildRow][] = [];
  const away: KeptBuildRow[] = [];
  const missing: BuildRow[] = [];
  const forgotten: bigint[] = [];
  for (const { attempts } of givers) {
    const by = attempts.find(({ finished_at: end }) => end !== null);
    const kept = by && by === attempts[0] ? await findFilesForSuite(trx, provedBy(by), context.filesHours) : undefined;
    const order = by && kept && orderOf(context, kept, by, asker);
    if (by && kept && order) ready.push([kept, order, by]);
    else if (kept && (await isHolderAlive(db, kept.holder))) away.push(kept);
    else {
      if (kept) forgotten.push(kept.id);
      if (by && by === attempts[0] && attempts.some((one) => one !== by && hadFilesOf(build, one)))
        return giveUp(context, build, `The files of ${by.suite_name} are not stored, even after it ran again.`);
      missing.push(by ?? (attempts[0] as BuildRow));
    }
  }
  if (missing.length > 0) return runAgain(context, job, build, { missing, forgotten });
  for (const kept of away) askForPack(context, kept, job);
  if (away.length > 0) {
    const location = placeOf(away, ready, asker);
    if (location === null && away.some(({ packable }) => packable === 0))
      return giveUp(context, build, 'The files are on several runners, and are too large to be packed.');
    return { location, until: Date.now() + (location === null ? packingMs : checkAgainMs) };
  }
  const [isLent] = givers.map((giver) => giver.isLent);
  if (isLent === undefined) return {};
  if (!isLent) {
    const [[kept, files] = []] = ready;
    if (!kept || !files) return {};
    await noteFiles(context, build.id, { files_of: kept.id });
    return { files, filesOf: kept.id };
  }
  await noteFiles(context, build.id, { lent_by: idsIn(ready.map(([{ id }]) => id)) });
  return { lent: ready.map(([, order, { variant }]) => ({ ...order, variant })) };
}

/**
 * What a build would begin with, for its inputs. Undefined while that is not known, or if the build would not begin.
 */
export async function filesToBe(
  { trx }: Pick<JobContext, 'trx'>,
  build: BuildRow,
): Promise<{ filesOf?: bigint; files?: FilesOrder; lent?: LentOrder[] } | undefined> {
  if (!takesFiles(build)) return {};
  const givers = (await findGivers(trx, build)).filter(({ attempts }) => attempts.length > 0);
  const newest = givers.flatMap(({ attempts: [first] }) => first ?? []);
  if (newest.some(({ finished_at: end }) => end === null)) return undefined;
  const [single] = newest;
  if (!givers.some(({ isLent }) => isLent)) {
    if (!single) return {};
    const filesOf = provedBy(single);
    return { filesOf, files: { suite: single.suite_name, build: String(filesOf) } };
  }
  return {
    lent: newest.map((one) => ({ suite: one.suite_name, variant: one.variant, build: String(provedBy(one)) })),
  };
}

const idsIn = (ids: readonly bigint[]): string => JSON.stringify(ids.map(String));

function hadFilesOf(build: BuildRow, { id }: BuildRow): boolean {
  return build.files_of === id || lenders(build).includes(id);
}

/** The runner to ask, or null if no single one has all of the files. */
function placeOf(
  away: readonly KeptBuildRow[],
  ready: readonly [KeptBuildRow, FilesOrder, BuildRow][],
  { location: here }: Asker,
): string | null {
  const locations = new Set(away.map(locationOf));
  const [location] = locations;
  const isBound = ready.some(([kept, { packed }]) => locationOf(kept) === here && packed === undefined);
  return location === undefined || locations.size > 1 || isBound ? null : location;
}

/** `missing` are the builds whose files are gone, or under way again. */
async function runAgain(
  context: JobContext,
  job: ClaimedJob,
  build: BuildRow,
  { missing, forgotten }: { missing: readonly BuildRow[]; forgotten: readonly bigint[] },
): Promise<undefined> {
  const { db, trx } = context;
  if (build.checks_id !== null) {
    await advanceBuild(context, build, 'cancelled'); // the suites do not run for a check
    return undefined;
  }
  await holdWithFirst(context, build.build_request_id, build.commit_id); // before the files (db/lock-order.ts)
  for (const id of forgotten) await forgetKept(trx, id);
  const gone = missing.filter(({ finished_at: end }) => end !== null);
  const suites = [...new Set(missing.map(({ suite_name: name }) => name))].join(', ');
  const ids = gone.map(({ id }) => id);
  const [first] = ids;
  const held = build.files_from === '' ? { lent_by: idsIn(ids) } : first === undefined ? {} : { files_of: first };
  if (await needAgain(context, build, { accountId: job.account_id, gone, held })) {
    const [verb, subject] = suites === missing[0]?.suite_name ? ['runs', 'It'] : ['run', 'They'];
    await addLine(db, trx, build.id, `The files of ${suites} are no longer stored. ${subject} ${verb} again first.`);
    return undefined;
  }
  return giveUp(context, build, `The files of ${suites} are no longer stored, and the suite was deleted.`);
}

async function giveUp(context: JobContext, build: BuildRow, line: string): Promise<undefined> {
  await addLine(context.db, context.trx, build.id, line);
  await advanceBuild(context, build, 'errored', { failure_reason: 'files_not_kept' });
}

/** Undefined if this runner cannot get the files now. */
function orderOf(
  { vault }: JobContext,
  kept: KeptBuildRow,
  { suite_name: suite }: BuildRow,
  { location }: Asker,
): FilesOrder | undefined {
  const isHere = locationOf(kept) === location;
  const { digest, size } = kept;
  if (!isHere && digest === null) return undefined;
  return {
    suite,
    build: String(kept.id),
    ...(isHere && { kept: { name: kept.name, key: openKey(vault, kept) } }),
    ...(digest !== null && { packed: { name: String(kept.id), digest, bytes: Number(size ?? 0n) } }),
  };
}

/** Undefined if no files are to be retained. */
export function keepOrder(
  { shellHours: hours }: JobContext,
  { account_id: account }: ClaimedJob,
  build: Pick<BuildRow, 'allow_failure'>,
  forSuites: boolean,
): KeepOrder | undefined {
  if (hours === 0 && !forSuites) return undefined;
  const when = build.allow_failure === 1 ? 'always' : 'passed';
  return { hours, accountId: String(account), ...(forSuites && { forSuites: when }) };
}

/** The second text is a whole line of the first. */
const isLine = (lines: RawBuilder<unknown>, line: RawBuilder<unknown>) =>
  sql`replace(${lines}, ${'\n'} || ${line} || ${'\n'}, '') <> ${lines}`;

/** A name with values of the matrix may be that of any needed suite. */
const hasNames = sql`(taker.files_from_name <> '' or taker.files_from like '%$%')`;

/**
 * Condition for a query of `builds`: another suite starts with the build's files. While a request may still join, every
 * suite that names this one counts.
 */
export const isTaken = sql<SqlBool>`(
  exists (
    select 1 from builds as taker
    where (taker.files_from = builds.suite_name or ${isLine(sql`taker.lent_from`, sql`builds.suite_name`)})
      and taker.build_request_id in (
      select taking.id from build_requests as taking
      where taking.id = builds.build_request_id or taking.joined_to_id = builds.build_request_id
    )
  ) or exists (
    select 1 from build_requests as own
    where own.id = builds.build_request_id and own.join_key > '' and own.joined_to_id is null and (
      exists (
        select 1 from suites as taker
        where own.config_digest = '' and taker.project_id = own.project_id and (
          taker.files_from_id = builds.suite_id
          or taker.files_from like '%"' || cast(builds.suite_id as text) || '"%'
          or (${hasNames} and taker.needs like '%"' || cast(builds.suite_id as text) || '"%')
        )
      ) or exists (
        select 1 from file_suites as source
        inner join file_suites as taker on taker.project_id = source.project_id and taker.digest = source.digest
        where source.project_id = own.project_id and source.digest = own.config_digest
          and source.name = builds.suite_name
          and taker.settings like '%"files_from%' and taker.settings like '%"' || cast(source.id as text) || '"%'
      )
    )
  )
)`;

/** Whether other suites may start with the build's files: it passed, or counts as passed. */
export async function leavesFiles(db: Queries, buildId: bigint): Promise<boolean> {
  const build = db
    .selectFrom('builds')
    .select('id')
    .where('id', '=', buildId)
    .where((either) => either.or([either('build_state', '=', 'passed'), either('allow_failure', '=', 1)]))
    .where(isTaken);
  return (await build.executeTakeFirst()) !== undefined;
}
