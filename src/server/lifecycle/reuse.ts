import type { Transaction } from '../db/open.ts';
import type { BuildInputsRow, BuildRow } from '../db/schema.ts';
import type { BuildInput } from '../../shared/domain/build-inputs.ts';
import { suiteFields } from '../../shared/records/suite.ts';
import { timestamp } from '../../shared/lib/timestamps.ts';
import { addLine } from '../streams/logs.ts';
import { holdForBuilds } from './apply-rollup.ts';
import { digestOfInputs } from './build-inputs.ts';
import { noteTestCounts } from './build-tests.ts';
import { advanceBuild } from './builds.ts';
import type { SuiteSettings } from './file-suites.ts';
import { findFilesForSuite, useAgain } from './kept-builds.ts';
import type { WriteContext } from './write-context.ts';

/*
 * A build is not run if one with the same inputs passed. The build that ran vouches for it. Which builds may vouch is
 * decided when they begin (`vouches_for`) and when they are looked up: they passed at their first try, are not too old,
 * and still have what the other one would have left.
 */

/** Whose builds a build may stand for. Blank: nobody's. */
export type VouchesFor = '' | 'all' | `pull ${bigint}` | `branch ${string}`;

/** What decides whom a build may serve, and who may serve it. */
export interface Origin {
  from_fork: number;
  pull_request: bigint | null;
  /** Blank if it has none, or may not have its cache. */
  branch: string;
}

/**
 * What a fork proved is for its pull request alone. `isOwn`: the build began with a cache or a service's data that builds
 * of its own branch left, and others would begin without.
 */
export function vouchesFor({ from_fork: fromFork, pull_request: pull, branch }: Origin, isOwn: boolean): VouchesFor {
  if (fromFork === 1) return pull === null || isOwn ? '' : `pull ${pull}`;
  return isOwn ? `branch ${branch}` : 'all';
}

function serving({ from_fork: fromFork, pull_request: pull, branch }: Origin): VouchesFor[] {
  if (fromFork === 1) return pull === null ? ['all'] : ['all', `pull ${pull}`];
  return branch === '' ? ['all'] : ['all', `branch ${branch}`];
}

/** The content of an ignored variable is left out, but not that it is there. */
export function digestFor(
  { ignore_variables: names }: Pick<SuiteSettings, 'ignore_variables'>,
  inputs: readonly BuildInput[],
): string {
  const ignored = suiteFields.ignore_variables.fromColumn(names);
  const isIgnored = ({ kind, name }: BuildInput): boolean => kind === 'variable' && ignored.includes(name);
  return digestOfInputs(inputs.map((one) => (isIgnored(one) ? { ...one, digest: '' } : one)));
}

export interface Wanted {
  project_id: bigint;
  ordered: string;
  /** Undefined: whatever the runner reports. */
  reported?: string;
  origin: Origin;
  days: number;
  /** Other suites of the request begin with its files, which are kept for so many hours. */
  filesHours: number | undefined;
}

export type Voucher = Pick<BuildRow, 'id' | 'finished_at' | 'tests_passed' | 'tests_failed' | 'tests_skipped'>;

const day = 24 * 60 * 60 * 1000;
const mostTried = 20;

/** The newest build that may stand for the wanted one. If `reported` is given, it stays a voucher until the transaction ends. */
export async function findVoucher(
  { db, trx }: WriteContext,
  wanted: Wanted,
  isThere: (holder: string) => Promise<boolean> = async () => true,
): Promise<Voucher | undefined> {
  const found = await trx
    .selectFrom('build_inputs')
    .innerJoin('builds', 'builds.id', 'build_inputs.id')
    .select(['builds.id', 'builds.finished_at', 'builds.tests_passed', 'builds.tests_failed', 'builds.tests_skipped'])
    .where('build_inputs.ordered_key', '=', wanted.ordered)
    .where('build_inputs.vouches_for', '>', '')
    .where('build_inputs.vouches_for', 'in', serving(wanted.origin))
    .$if(wanted.reported !== undefined, (all) => all.where('reported_key', '=', wanted.reported ?? ''))
    .where('build_inputs.reported_key', '<>', '')
    .where('builds.project_id', '=', wanted.project_id)
    .where('builds.build_state', '=', 'passed')
    .where('builds.retry', '=', 0)
    .where('builds.faults', '=', 0)
    .where('builds.uploads', '=', '')
    .where('builds.finished_at', '>', BigInt(Date.now() - wanted.days * day))
    .orderBy('builds.id', 'desc')
    .limit(mostTried)
    .execute();
  const { reported, filesHours } = wanted;
  if (reported === undefined) return found[0];
  for (const one of found) {
    if (filesHours !== undefined) {
      const kept = await findFilesForSuite(trx, one.id, filesHours);
      if (!kept || (kept.digest === null && !(await isThere(kept.holder)))) continue;
    }
    // Its artifacts may be removed at this moment (outputs/artifacts.ts).
    const row = trx.selectFrom('build_inputs').select('id').where('id', '=', one.id).where('vouches_for', '>', '');
    if (await db.locked(row, 'build_inputs').executeTakeFirst()) return one;
  }
  return undefined;
}

type Reusing = Pick<BuildRow, 'id' | 'build_request_id' | 'commit_id'>;

/** False if the build moved on, or the files that others need are gone since. */
export async function reuseBuild(
  context: WriteContext,
  build: Reusing,
  voucher: Voucher,
  { givesFiles }: { givesFiles: boolean },
): Promise<boolean> {
  const { db, trx } = context;
  if (givesFiles) {
    await holdForBuilds(context, build.build_request_id, build.commit_id); // before the files (db/lock-order.ts)
    if (!(await useAgain(trx, voucher.id))) return false;
  }
  const passedAt = timestamp(voucher.finished_at ?? 0n);
  await addLine(
    db,
    trx,
    build.id,
    `Not run: all its inputs equal those of build ${voucher.id}, which passed at ${passedAt}.`,
  );
  const reused = { reused_from_id: voucher.id, steps: skipped(await stepsOf(trx, build.id)) };
  await trx.updateTable('builds').set(reused).where('id', '=', build.id).execute();
  const { tests_passed: passed, tests_failed: failed, tests_skipped } = voucher;
  await noteTestCounts(trx, build.id, { passed, failed, skipped: tests_skipped });
  return advanceBuild(context, build, 'passed');
}

async function stepsOf(trx: Transaction, id: bigint): Promise<string> {
  const build = trx.selectFrom('builds').select('steps').where('id', '=', id);
  return (await build.executeTakeFirstOrThrow()).steps;
}

function skipped(steps: string): string {
  if (steps === '') return '';
  return JSON.stringify((JSON.parse(steps) as object[]).map((step) => ({ ...step, state: 'skipped' })));
}

/** Of these builds, those that newer ones were passed because of. */
export async function reusedSince(trx: Transaction, builds: readonly bigint[], since: bigint): Promise<Set<bigint>> {
  if (builds.length === 0) return new Set();
  const reused = trx.selectFrom('builds').select('reused_from_id').distinct().where('id', '>=', since);
  const rows = await reused.where('reused_from_id', 'in', builds).execute();
  return new Set(rows.flatMap(({ reused_from_id: id }) => id ?? []));
}

/** Before what they left is removed. */
export async function vouchNoMore(trx: Transaction, builds: readonly bigint[]): Promise<void> {
  if (builds.length === 0) return;
  const none: Partial<BuildInputsRow> = { vouches_for: '' };
  await trx.updateTable('build_inputs').set(none).where('id', 'in', builds).where('vouches_for', '>', '').execute();
}
