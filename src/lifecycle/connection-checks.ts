import type { Queries } from '../db/open.ts';
import { drop, enqueue } from '../queue/queue.ts';
import { hurryPolling } from './polls.ts';
import { subjectTopic, type WriteContext } from './write-context.ts';

/**
 * Somebody looks whether a project's repository can be reached with its key. A runner does the looking, and whoever asked
 * waits for it, so its job stands before all others of the account. The last look stays with the project: the page that
 * sets one up suggests a first suite by what the repository held.
 */

/** What was seen. */
export interface ConnectionCheck {
  connected: boolean;
  /** In words, what is wrong or what is there. */
  message: string;
  /** null where it is not known, as that of an empty repository. */
  default_branch: string | null;
  branches: string[];
  /** What lies at the top of the default branch; none where it was not looked at. */
  files: string[];
}

/** Whoever asked is answered by then. */
export const longestCheckMs = 14_000;

/** Begins a look, or joins the one that is under way; answers its identifier. */
export async function beginCheck(
  { db, trx, ids }: WriteContext,
  project: { id: bigint; owner_id: bigint },
): Promise<bigint> {
  const now = BigInt(Date.now());
  await db.holdNumber(trx, project.id); // of two who ask at once, the second joins the first
  const open = await trx
    .selectFrom('connection_checks')
    .select(['id', 'created_at'])
    .where('project_id', '=', project.id)
    .where('answer', 'is', null)
    .orderBy('id', 'desc')
    .executeTakeFirst();
  // One that is older was left behind by a server that died.
  if (open && now - open.created_at < BigInt(longestCheckMs)) return open.id;
  const id = ids.next();
  await trx.deleteFrom('connection_checks').where('project_id', '=', project.id).where('answer', 'is', null).execute();
  await trx
    .insertInto('connection_checks')
    .values({ id, project_id: project.id, created_at: now, answer: null })
    .execute();
  const job = { kind: 'check_connection', subjectId: id, accountId: project.owner_id, isAwaited: true };
  await enqueue(db, trx, ids, job);
  return id;
}

/** Notes what was seen, unless it was given up already. It takes the place of what was seen before. */
export async function settleCheck({ db, trx }: WriteContext, id: bigint, seen: ConnectionCheck): Promise<void> {
  const settled = await trx
    .updateTable('connection_checks')
    .set({ answer: JSON.stringify(seen) })
    .where('id', '=', id)
    .where('answer', 'is', null)
    .returning('project_id')
    .executeTakeFirst();
  if (!settled) return;
  await trx
    .deleteFrom('connection_checks')
    .where('project_id', '=', settled.project_id)
    .where('id', '<', id)
    .where('answer', 'is not', null)
    .execute();
  if (seen.connected) await hurryPolling({ db, trx }, settled.project_id);
  await db.announce(trx, subjectTopic(id));
}

/** Whether a runner has begun to look. */
export async function isLookedAt(db: Queries, id: bigint): Promise<boolean> {
  const taken = db.selectFrom('jobs').select('id').where('subject_id', '=', id).where('claim', 'is not', null);
  return (await taken.executeTakeFirst()) !== undefined;
}

/** Nobody has looked in time: the job is called off, and this is the answer to all who wait. */
export async function giveUpCheck(context: WriteContext, id: bigint, seen: ConnectionCheck): Promise<void> {
  const { db, trx } = context;
  await drop(db, trx, trx.selectFrom('connection_checks').select('id').where('id', '=', id) as never);
  await settleCheck(context, id, seen);
}

/** What was seen; undefined while nothing was, `gone` once the project is. */
export async function checkSeen(db: Queries, id: bigint): Promise<ConnectionCheck | 'gone' | undefined> {
  const row = await db.selectFrom('connection_checks').select('answer').where('id', '=', id).executeTakeFirst();
  return row ? read(row) : 'gone';
}

/** The last look at a project's repository. */
export async function lastCheck(db: Queries, projectId: bigint): Promise<ConnectionCheck | undefined> {
  const row = await db
    .selectFrom('connection_checks')
    .select('answer')
    .where('project_id', '=', projectId)
    .where('answer', 'is not', null)
    .orderBy('id', 'desc')
    .executeTakeFirst();
  return read(row);
}

function read(row: { answer: string | null } | undefined): ConnectionCheck | undefined {
  const answer = row?.answer ?? undefined;
  return answer === undefined ? undefined : (JSON.parse(answer) as ConnectionCheck);
}
