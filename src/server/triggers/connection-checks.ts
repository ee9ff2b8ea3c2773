import type { Queries } from '../db/open.ts';
import { drop, enqueue } from '../queue/queue.ts';
import { pollSoon } from './polls.ts';
import { subjectTopic, type WriteContext } from '../lifecycle/write-context.ts';

/**
 * Checks whether a project's repository can be read. A runner does the check while the user waits, so
 * its job goes before all others of the account. The last result stays with the project: the page that sets up a
 * project suggests a first suite by the files found.
 */

/** The result of a check. */
export interface ConnectionCheck {
  connected: boolean;
  /** A sentence: what is wrong, or what was found. */
  message: string;
  /** null where it is unknown, as in an empty repository. */
  default_branch: string | null;
  branches: string[];
  /** The names at the top of the default branch; empty where they were not read. */
  files: string[];
}

/** Within this time the waiting user gets an answer. */
export const longestCheckMs = 14_000;

/** Begins a check, or joins the one that is under way. Returns its identifier. */
export async function beginCheck(
  { db, trx, ids }: WriteContext,
  project: { id: bigint; owner_id: bigint },
): Promise<bigint> {
  const now = BigInt(Date.now());
  await db.holdRight(trx, 'check', project.id); // Of two callers at the same time, the second joins the check of the first.
  const open = await trx
    .selectFrom('connection_checks')
    .select(['id', 'created_at'])
    .where('project_id', '=', project.id)
    .where('answer', 'is', null)
    .orderBy('id', 'desc')
    .executeTakeFirst();
  // An older check was left by a server that died.
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

/** Stores the result in place of the last one, unless the check was given up already. */
export async function settleCheck({ db, trx }: WriteContext, id: bigint, result: ConnectionCheck): Promise<void> {
  const settled = await trx
    .updateTable('connection_checks')
    .set({ answer: JSON.stringify(result) })
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
  if (result.connected) await pollSoon({ db, trx }, settled.project_id);
  await db.announce(trx, subjectTopic(id));
}

/** Whether a runner has begun the check. */
export async function isCheckBegun(db: Queries, id: bigint): Promise<boolean> {
  const taken = db.selectFrom('jobs').select('id').where('subject_id', '=', id).where('claim', 'is not', null);
  return (await taken.executeTakeFirst()) !== undefined;
}

/** No runner did the check in time: its job is cancelled, and every waiting caller gets this result. */
export async function giveUpCheck(context: WriteContext, id: bigint, result: ConnectionCheck): Promise<void> {
  const { db, trx } = context;
  await drop(db, trx, trx.selectFrom('connection_checks').select('id').where('id', '=', id) as never);
  await settleCheck(context, id, result);
}

/** The result of a check; undefined while there is none, `gone` once the project is deleted. */
export async function checkResult(db: Queries, id: bigint): Promise<ConnectionCheck | 'gone' | undefined> {
  const row = await db.selectFrom('connection_checks').select('answer').where('id', '=', id).executeTakeFirst();
  return row ? read(row) : 'gone';
}

/** The last result for a project's repository. */
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
