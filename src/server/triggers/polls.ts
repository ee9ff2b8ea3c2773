import { sql } from 'kysely';
import type { Database, Queries, Transaction } from '../db/open.ts';
import type { PollRow, ProjectRow } from '../db/schema.ts';
import { locationOf } from '../../shared/domain/git-address.ts';
import { makeStrandedDue, polls } from '../queue/due.ts';
import { compareInTransaction } from './compare-listings.ts';
import { checkSoon, suspect } from '../lifecycle/forge-holds.ts';
import { noteMoves } from '../lifecycle/merges.ts';
import { applyEffects } from '../lifecycle/pending-effects.ts';
import { refLabel, mostBuilds, type MovedRef, type Moves } from './polled-refs.ts';
import { pollWait, withJitter } from './poll-waits.ts';
import { triggerRequests, type TriggeredBuild } from './triggers.ts';
import type { WriteContext } from '../lifecycle/write-context.ts';

/**
 * A runner that claims a poll postpones it by the longest duration of a poll. So no other runner takes it meanwhile,
 * and an unanswered poll is due again. A result counts only under its claim, in the transaction that requests the
 * builds. So nothing is built twice, and no change is missed.
 */

/** Announced when a poll may be due earlier than the waiting servers know. */
export const pollsTopic = 'polls';

export type PollOutcome = 'waiting' | 'first_poll' | 'unchanged' | 'build_requested' | 'ignored' | 'failed';

const never = { last_polled_at: null, outcome: 'waiting' satisfies PollOutcome, reason: '', failures: 0 };
const nobodys = { claim: null, holder: null };

/** Polls count for the account that owns the project. */
export async function handOverPolling(trx: Transaction, projectId: bigint, owner: bigint): Promise<void> {
  await trx.updateTable('polls').set({ account_id: owner }).where('project_id', '=', projectId).execute();
}

/** Call it with each write of the project's row. The first poll of a repository only records its refs. */
export async function arrangePolling(
  { db, trx }: Pick<WriteContext, 'db' | 'trx'>,
  project: Pick<ProjectRow, 'id' | 'owner_id' | 'poll_interval' | 'clone_url'>,
  changed: { isElsewhere: boolean },
): Promise<void> {
  const { id, poll_interval: seconds, clone_url: url } = project;
  const present = await db
    .locked(trx.selectFrom('polls').selectAll().where('project_id', '=', id), 'polls')
    .executeTakeFirst();
  const now = Date.now();
  const anew = { host: locationOf(url)?.host ?? url, next_poll_at: BigInt(now), wait_ms: 0n, ...nobodys, ...never };
  if (seconds === 0) {
    await trx.deleteFrom('polls').where('project_id', '=', id).execute();
  } else if (!present) {
    await trx
      .insertInto('polls')
      .values({ project_id: id, account_id: project.owner_id, ...anew })
      .execute();
  } else {
    const lastPoll = { now: Number(present.last_polled_at ?? now), seconds };
    const values = changed.isElsewhere ? anew : nextPoll(present, lastPoll, present.failures);
    await trx.updateTable('polls').set(values).where('project_id', '=', id).execute();
  }
  if (seconds === 0 || changed.isElsewhere) await trx.deleteFrom('polled_refs').where('project_id', '=', id).execute();
  if (seconds > 0) await db.announce(trx, pollsTopic);
}

/** A check has reached the repository, so a longer wait after failures ends. */
export async function pollSoon({ db, trx }: Pick<WriteContext, 'db' | 'trx'>, projectId: bigint): Promise<void> {
  const { numUpdatedRows } = await trx
    .updateTable('polls')
    .set({ next_poll_at: BigInt(Date.now()), wait_ms: 0n, failures: 0 })
    .where('project_id', '=', projectId)
    .where('failures', '>', 0)
    .where('claim', 'is', null)
    .executeTakeFirst();
  if (numUpdatedRows > 0n) await db.announce(trx, pollsTopic);
}

interface Moment {
  now: number;
  seconds: number;
}

/** A running poll keeps its claim and its own time. */
function nextPoll(
  poll: Pick<PollRow, 'claim' | 'next_poll_at' | 'wait_ms'>,
  { now, seconds }: Moment,
  failures: number,
) {
  if (poll.claim !== null) return { next_poll_at: poll.next_poll_at, wait_ms: poll.wait_ms };
  const wait = withJitter(pollWait(failures, seconds * 1000));
  return { next_poll_at: BigInt(now + wait), wait_ms: BigInt(wait) };
}

export async function pollOf(db: Queries, projectId: bigint): Promise<PollRow | undefined> {
  return db.selectFrom('polls').selectAll().where('project_id', '=', projectId).executeTakeFirst();
}

interface ClaimedReport {
  projectId: bigint;
  claim: string;
}

/** One statement for all polls of a claim, without reading the stored listings. */
export async function noteUnchanged(trx: Transaction, claim: string, projects: readonly bigint[]): Promise<void> {
  const now = BigInt(Date.now());
  // Waits vary by poll and from time to time (poll-waits.ts).
  const salt = BigInt(Math.floor(Math.random() * 201));
  const wait = sql<bigint>`(900 + (polls.project_id + ${salt}) % 201) * (
    select projects.poll_interval from projects where projects.id = polls.project_id
  )`;
  await trx
    .updateTable('polls')
    .set({
      ...nobodys,
      next_poll_at: sql<bigint>`${now} + ${wait}`,
      wait_ms: wait,
      last_polled_at: now,
      outcome: 'unchanged' satisfies PollOutcome,
      reason: 'No branch or tag is new or has moved since the last poll.',
      failures: 0,
    })
    .where('claim', '=', claim)
    .where('project_id', 'in', projects)
    .execute();
}

export async function noteFailure(
  { db, trx }: Pick<WriteContext, 'db' | 'trx'>,
  { projectId, claim }: ClaimedReport,
  message: string,
): Promise<void> {
  const poll = await claimed(trx, { projectId, claim });
  if (!poll) return;
  const failures = poll.failures + 1;
  // The project is locked before its poll (db/lock-order.ts). Only the first failure requests a check of the forge.
  if (failures === 1) await suspect({ db, trx }, poll.project_id);
  await settle(trx, poll, { outcome: 'failed', reason: message, failures });
}

export async function noteListing(context: WriteContext, report: ClaimedReport, listing: string): Promise<void> {
  const { trx } = context;
  const poll = await claimed(trx, report);
  if (!poll) return;
  const known = await trx
    .selectFrom('polled_refs')
    .selectAll()
    .where('project_id', '=', poll.project_id)
    .executeTakeFirst();
  const comparison = { account: poll.owner_id, name: `${report.projectId} ${report.claim} ${known?.digest}` };
  const compared = compareInTransaction(context, comparison, { before: known?.refs, listing });
  if (!compared) return;
  const { size, moves, row } = compared;
  const result = moves ? await requestBuilds(context, poll, moves) : firstPoll(size);
  // Contended rows are locked before the project and polls (db/lock-order.ts).
  await applyEffects(context);
  if (result.outcome === 'build_requested' && !(await wasTold(trx, poll.project_id)))
    await checkSoon(context, poll.project_id);
  // The project before its poll, as in its deletion: the rows stored below refer to the project.
  const project = trx.selectFrom('projects').select('id').where('id', '=', poll.project_id);
  await context.db.shareLocked(project, 'projects').execute();
  if (!(await settle(trx, poll, { ...result, failures: 0 }))) throw new PollLostError();
  await trx
    .insertInto('polled_refs')
    .values({ project_id: poll.project_id, ...row })
    .onConflict((conflict) => conflict.column('project_id').doUpdateSet(row))
    .execute();
}

/** Another runner claimed the poll while the report came in. The whole report is dropped. */
export class PollLostError extends Error {
  override name = 'PollLostError';
}

type Claimed = PollRow & Pick<ProjectRow, 'poll_interval'> & Parameters<typeof triggerRequests>[1];

function claimed(trx: Transaction, { projectId, claim }: ClaimedReport): Promise<Claimed | undefined> {
  return trx
    .selectFrom('polls')
    .innerJoin('projects', 'projects.id', 'polls.project_id')
    .selectAll('polls')
    .select(['projects.id', 'projects.owner_id', 'projects.poll_interval'])
    .select(['projects.fork_builds', 'projects.cancel_superseded', 'projects.config_file', 'projects.build_twice'])
    .select(['projects.parameters', 'projects.pull_request_builds'])
    .where('polls.project_id', '=', projectId)
    .where('polls.claim', '=', claim)
    .executeTakeFirst();
}

type PollResult = Pick<PollRow, 'reason' | 'failures'> & { outcome: PollOutcome };

async function settle(trx: Transaction, poll: Claimed, result: PollResult): Promise<boolean> {
  const now = Date.now();
  const free = { ...poll, claim: null };
  const { numUpdatedRows } = await trx
    .updateTable('polls')
    .set({
      ...nobodys,
      ...nextPoll(free, { now, seconds: poll.poll_interval }, result.failures),
      last_polled_at: BigInt(now),
      ...result,
    })
    .where('project_id', '=', poll.project_id)
    .where('claim', '=', poll.claim)
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}

function firstPoll(size: number): Omit<PollResult, 'failures'> {
  const there =
    size === 0
      ? 'The repository is empty.'
      : `${size} ${size === 1 ? 'branch or tag is' : 'branches and tags are'} there.`;
  return {
    outcome: 'first_poll',
    reason: `${there} The first poll builds nothing. Later polls build new and moved branches and tags.`,
  };
}

async function requestBuilds(
  context: WriteContext,
  poll: Claimed,
  { wanted, moved, deleted }: Moves,
): Promise<Omit<PollResult, 'failures'>> {
  const refused = new Set<string>();
  const requested: MovedRef[] = [];
  const triggered = await triggerRequests(
    context,
    poll,
    wanted.map((move) => ({ commitRef: move.sha, trigger: triggerOf(move) })),
  );
  const moves = wanted.flatMap(({ branch, sha }) => (branch === '' ? [] : [{ branch, sha }]));
  await noteMoves(context.trx, poll.id, moves);
  for (const [at, move] of wanted.entries()) {
    if (triggered[at]?.request) requested.push(move);
    else refused.add(triggered[at]?.reason ?? '');
  }
  const sentences = [
    requested.length > 0 ? `Builds were requested for ${requested.map(refLabel).join(', ')}.` : '',
    ...refused,
    moved > wanted.length ? tooMany(moved) : '',
    deleted > 0 ? `${deleted} ${deleted === 1 ? 'was' : 'were'} deleted, which builds nothing.` : '',
  ];
  const reason = sentences.filter((one) => one !== '').join(' ');
  return { outcome: requested.length > 0 ? 'build_requested' : 'ignored', reason };
}

/** A hook that was called recently works. */
async function wasTold(trx: Transaction, projectId: bigint): Promise<boolean> {
  const lately = BigInt(Date.now() - 2 * 60 * 1000);
  const calls = trx
    .selectFrom('hook_deliveries')
    .innerJoin('hooks', 'hooks.id', 'hook_deliveries.hook_id')
    .select('hook_deliveries.id')
    .where('hooks.project_id', '=', projectId)
    .where('hooks.forge_url', '!=', '')
    .where('hook_deliveries.received_at', '>', lately);
  return (await calls.executeTakeFirst()) !== undefined;
}

function tooMany(moved: number): string {
  return (
    `${moved} branches and tags were new or had moved at once, and one poll requests at most ${mostBuilds} builds: branches ` +
    'first, then the tags with the highest numbers. The rest are skipped; request their builds by hand.'
  );
}

function triggerOf({ ref, branch, before }: MovedRef): TriggeredBuild['trigger'] {
  return {
    source: 'poll',
    before,
    event: 'poll',
    pullRequest: null,
    targetBranch: branch,
    headBranch: branch,
    fromFork: false,
    sender: '',
    fetchRef: ref,
    group: branch === '' ? '' : `branch:${branch}`,
  };
}

/** Call after the clock was set back. */
export function makeStrandedPollsDue(db: Database): Promise<void> {
  return makeStrandedDue(db, polls, sql<bigint>`wait_ms`);
}
