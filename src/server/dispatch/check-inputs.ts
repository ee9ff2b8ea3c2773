import { sql } from 'kysely';
import { ableTo, isHolderAlive } from '../auth/runner-heartbeats.ts';
import { noteOrderedInputs, noteReportedInputs, reportedInputs } from '../lifecycle/build-inputs.ts';
import { advanceBuild } from '../lifecycle/builds.ts';
import { preferredFor } from '../lifecycle/held-back.ts';
import { digestFor, findVoucher, reuseBuild, type Wanted } from '../lifecycle/reuse.ts';
import { addCheck } from '../lifecycle/reuse-checks.ts';
import type { BuildInput } from '../../shared/domain/build-inputs.ts';
import type { CheckInputsOrder, RunnerInput } from '../../shared/protocol/index.ts';
import type { ClaimedJob } from '../queue/leases.ts';
import { enqueue } from '../queue/queue.ts';
import { addTried, hasTried } from '../queue/tried.ts';
import { cachePart } from './caches.ts';
import { filesToBe } from './files.ts';
import type { JobContext, JobHandler } from './job-handler.ts';
import { inputsOf } from './order-inputs.ts';
import { isReusable, reportedDigest } from './reuse-inputs.ts';
import { prepareSuite, type BasicOrder } from './suite-order.ts';
import { suiteParts, type SuiteParts } from './suite-parts.ts';

/**
 * Looks whether a build need not run, because one with the same inputs passed. What only a runner knows is asked of the
 * runners that could take the build, one after the other. If none stands for it, it becomes a job that runs it, in the
 * same transaction. It also does if anything is unusual here: then running it shows what.
 */
export const checkInputs: JobHandler = {
  async order(context, job) {
    const ready = job.cancelled === 0 && !hasTried(job, job.holder) ? await readyFor(context, job) : undefined;
    if (!ready || !(await findVoucher(context, ready.wanted))) return runInstead(context, job);
    return orderFrom(ready.order, ready.parts.files_from !== '');
  },

  outcomes: ['inputs', 'cancelled', 'unfetchable', 'unrunnable', 'store_away'],

  async settle(context, job, outcome, { inputs }) {
    if (job.cancelled === 1) await advanceBuild(context, { id: job.subject_id }, 'cancelled');
    else if (outcome.kind !== 'inputs' || !inputs) await runInstead(context, job);
    else if (!(await reuse(context, job, inputs))) await askAnother(context, job);
  },

  async lose(context, job) {
    if (job.cancelled === 1) await advanceBuild(context, { id: job.subject_id }, 'cancelled');
    else await runInstead(context, job);
    return { retry: false };
  },

  keepsLogOpen: true,
};

interface Ready {
  parts: SuiteParts;
  order: BasicOrder;
  inputs: BuildInput[];
  wanted: Wanted;
}

/** What a build stands on, as far as the server knows. Undefined if it has to run. */
async function readyFor(context: JobContext, job: ClaimedJob): Promise<Ready | undefined> {
  const parts = await suiteParts(context.trx, job.subject_id);
  if (!parts || parts.may_reuse === 0 || parts.build_state !== 'enqueued' || !isReusable(parts)) return undefined;
  const suite = await prepareSuite(context, job, parts);
  if (suite.missing.length > 0 || suite.problem) return undefined;
  const begins = await filesToBe(context, parts);
  if (!begins) return undefined;
  const { filesOf, ...files } = begins;
  const order = { ...suite.order, ...cachePart(context, parts), ...files };
  const inputs = inputsOf(context.vault, order, { build: parts, layers: suite.layers, filesOf });
  const wanted: Wanted = {
    project_id: parts.project_id,
    ordered: digestFor(parts, inputs),
    origin: suite.keeping,
    days: parts.reuse_days,
    filesHours: parts.is_taken ? context.filesHours : undefined,
  };
  return { parts, order: suite.order, inputs, wanted };
}

function orderFrom(
  { source, sha, fetchRef, merge, isFork, environment, image, services, inputs }: BasicOrder,
  hasFiles: boolean,
): CheckInputsOrder {
  return {
    kind: 'check_inputs',
    source,
    sha,
    ...(fetchRef !== undefined && { fetchRef }),
    ...(merge && { merge }),
    ...(isFork !== undefined && { isFork }),
    environment: Object.keys(environment), // the values are not for a runner that does not run the build
    ...(image && { image }),
    ...(services && { services: services.map(({ name, image: of }) => ({ name, ...(of && { image: of }) })) }),
    ...(inputs && { inputs }),
    ...(hasFiles && { hasFiles }),
  };
}

async function reuse(context: JobContext, job: ClaimedJob, told: readonly RunnerInput[]): Promise<boolean> {
  const { trx, vault } = context;
  const ready = await readyFor(context, job);
  if (!ready) return false;
  const { parts, wanted } = ready;
  const reported = reportedInputs(vault, parts.project_id, told);
  const reported_key = reportedDigest(parts, reported);
  if (reported_key === '') return false;
  const voucher = await findVoucher(context, { ...wanted, reported: reported_key }, (holder) =>
    isHolderAlive(context.db, holder),
  );
  if (!voucher) return false;
  await noteOrderedInputs(trx, parts.id, ready.inputs, { ordered_key: wanted.ordered });
  await noteReportedInputs(trx, parts.id, reported, { reported_key });
  if (!(await reuseBuild(context, parts, voucher, { givesFiles: Boolean(parts.is_taken) }))) return false;
  if (context.isSampled()) await addCheck(context, parts.id, { accountId: job.account_id, tags: job.tags });
  return true;
}

/** A connected runner could take the build, and was not asked. */
async function isAnyLeft({ db, trx }: JobContext, job: ClaimedJob): Promise<boolean> {
  const able = ableTo(db, { account: sql`cast(${job.account_id} as bigint)`, tags: sql`cast(${job.tags} as text)` });
  const { rows } = await sql<{ holder: string }>`${able}`.execute(trx);
  return rows.some(({ holder }) => !hasTried(job, holder));
}

/** Runs it if all connected runners that could take it have answered. */
async function askAnother(context: JobContext, job: ClaimedJob): Promise<void> {
  const triedBy = addTried(job);
  if (await isAnyLeft(context, { ...job, tried_by: triedBy })) await enqueueAs(context, job, 'check_inputs', triedBy);
  else await runInstead(context, job);
}

async function runInstead(context: JobContext, job: ClaimedJob): Promise<undefined> {
  const builds = context.trx.selectFrom('builds').selectAll().where('id', '=', job.subject_id);
  const build = await builds.executeTakeFirst();
  if (build) await enqueueAs(context, job, 'run_suite', null, await preferredFor(context.trx, build));
}

/** The claimed job ends with this transaction. */
async function enqueueAs(
  { db, trx, ids }: JobContext,
  { subject_id: subjectId, account_id: accountId, tags, priority }: ClaimedJob,
  kind: 'run_suite' | 'check_inputs',
  triedBy: string | null,
  preferred: Awaited<ReturnType<typeof preferredFor>> = {},
): Promise<undefined> {
  await enqueue(db, trx, ids, { kind, subjectId, accountId, tags, priority, triedBy, ...preferred });
}
