import { sql, type SqlBool } from 'kysely';
import { isHolderAlive } from '../auth/runner-heartbeats.ts';
import type { Queries } from '../db/open.ts';
import type { BuildRow, KeptBuildRow } from '../db/schema.ts';
import { holdWithFirst } from '../lifecycle/apply-rollup.ts';
import { advanceBuild } from '../lifecycle/builds.ts';
import {
  askForPack,
  findLeaving,
  findFilesForSuite,
  forgetKept,
  openKey,
  locationOf,
} from '../lifecycle/kept-builds.ts';
import { noteFiles } from '../lifecycle/held-back.ts';
import { needAgain } from '../lifecycle/needed-again.ts';
import type { FilesOrder, KeepOrder } from '../../shared/protocol/index.ts';
import type { ClaimedJob } from '../queue/leases.ts';
import { addLine } from '../streams/logs.ts';
import type { Asker, Elsewhere, JobContext } from './job-handler.ts';

const checkAgainMs = 10_000;

interface Beginning {
  files?: FilesOrder;
  /** The build that left them. */
  filesOf?: bigint;
}

/** Undefined if the build does not start now. */
export async function filesOrder(
  context: JobContext,
  job: ClaimedJob,
  build: BuildRow,
  asker: Asker,
): Promise<Beginning | Elsewhere | undefined> {
  if (build.files_from === '') return {};
  const { db, trx } = context;
  const attempts = await findLeaving(trx, build);
  // The suite does not run in this request, so the build starts with the checkout.
  if (attempts.length === 0) return {};
  const by = attempts.find(({ finished_at: end }) => end !== null);
  const kept = by && by === attempts[0] ? await findFilesForSuite(trx, by.id, context.filesHours) : undefined;
  if (kept) {
    const order = await orderOf(context, kept, build, asker);
    if (order) {
      await noteFiles(context, build.id, kept.id);
      return { files: order, filesOf: kept.id };
    }
    if (await isHolderAlive(db, kept.holder)) {
      askForPack(context, kept, job);
      return { location: locationOf(kept), until: Date.now() + checkAgainMs };
    }
    await holdWithFirst(context, build.build_request_id, build.commit_id); // before the files (db/lock-order.ts)
    await forgetKept(trx, kept.id);
  }
  const suite = build.files_from;
  if (by && by === attempts[0] && build.files_of !== null && build.files_of !== by.id) {
    return giveUp(context, build, `The files of ${suite} are not stored, even after it ran again.`);
  }
  if (await needAgain(context, build, { accountId: job.account_id, gone: by })) {
    await addLine(db, trx, build.id, `The files of ${suite} are no longer stored. It runs again first.`);
    return undefined;
  }
  return giveUp(context, build, `The files of ${suite} are no longer stored, and the suite was deleted.`);
}

async function giveUp(context: JobContext, build: BuildRow, line: string): Promise<undefined> {
  await addLine(context.db, context.trx, build.id, line);
  await advanceBuild(context, build, 'errored', { failure_reason: 'files_not_kept' });
}

/** Undefined if this runner cannot get the files now. */
async function orderOf(
  { vault }: JobContext,
  kept: KeptBuildRow,
  { files_from: suite }: BuildRow,
  { location }: Asker,
): Promise<FilesOrder | undefined> {
  const isHere = locationOf(kept) === location;
  const { digest, size } = kept;
  if (!isHere && digest === null) return undefined;
  return {
    suite,
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

/**
 * Condition for a query of `builds`: another suite starts with the build's files. While a request may still join, every
 * suite that names this one counts.
 */
export const isTaken = sql<SqlBool>`(
  exists (
    select 1 from builds as taker
    where taker.files_from = builds.suite_name and taker.build_request_id in (
      select taking.id from build_requests as taking
      where taking.id = builds.build_request_id or taking.joined_to_id = builds.build_request_id
    )
  ) or exists (
    select 1 from build_requests as own
    where own.id = builds.build_request_id and own.join_key > '' and own.joined_to_id is null and (
      exists (
        select 1 from suites as taker
        where own.config_digest = '' and taker.project_id = own.project_id and taker.files_from_id = builds.suite_id
      ) or exists (
        select 1 from file_suites as source
        inner join file_suites as taker on taker.project_id = source.project_id and taker.digest = source.digest
        where source.project_id = own.project_id and source.digest = own.config_digest
          and source.name = builds.suite_name
          and taker.settings like '%"files_from_id":"' || cast(source.id as text) || '"%'
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
