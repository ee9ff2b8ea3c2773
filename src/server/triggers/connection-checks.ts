import type { WorkflowFile } from '../../shared/domain/workflow-files.ts';
import type { Queries } from '../db/open.ts';
import { drop, enqueue } from '../queue/queue.ts';
import { pollSoon } from './polls.ts';
import { subjectTopic, type WriteContext } from '../lifecycle/write-context.ts';

/**
 * A user waits for this, so its job precedes all other jobs of the account. The setup page suggests a suite from its
 * files.
 */

export interface ConnectionCheck {
  connected: boolean;
  message: string;
  /** null if unknown, as in an empty repository. */
  default_branch: string | null;
  branches: string[];
  /** Top-level names of the default branch; empty if not read. */
  files: string[];
  /** Paths of files of other CI systems. */
  workflows: string[];
}

/** Time limit of the waiting user. */
export const longestCheckMs = 14_000;

/** Joins a running check. Returns the check's id. */
export async function beginCheck(
  { db, trx, ids }: WriteContext,
  project: { id: bigint; owner_id: bigint },
): Promise<bigint> {
  const now = BigInt(Date.now());
  await db.holdRight(trx, 'check', project.id); // of two callers at the same time, the second joins the check of the first
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
    .values({ id, project_id: project.id, created_at: now, answer: null, workflows: '[]' })
    .execute();
  const job = { kind: 'check_connection', subjectId: id, accountId: project.owner_id, isAwaited: true };
  await enqueue(db, trx, ids, job);
  return id;
}

/** Texts of workflow files are stored apart, because pages read the rest often. */
type Result = Omit<ConnectionCheck, 'workflows'>;

export async function settleCheck(
  { db, trx }: WriteContext,
  id: bigint,
  { workflows = [], ...result }: Result & { workflows?: readonly WorkflowFile[] },
): Promise<void> {
  const answer: ConnectionCheck = { ...result, workflows: workflows.map(({ path }) => path) };
  const settled = await trx
    .updateTable('connection_checks')
    .set({ answer: JSON.stringify(answer), workflows: JSON.stringify(workflows) })
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

export async function isCheckBegun(db: Queries, id: bigint): Promise<boolean> {
  const taken = db.selectFrom('jobs').select('id').where('subject_id', '=', id).where('claim', 'is not', null);
  return (await taken.executeTakeFirst()) !== undefined;
}

/** No runner did the check in time: its job is cancelled, and every waiting caller gets this result. */
export async function giveUpCheck(context: WriteContext, id: bigint, result: Result): Promise<void> {
  const { db, trx } = context;
  await drop(db, trx, trx.selectFrom('connection_checks').select('id').where('id', '=', id) as never);
  await settleCheck(context, id, result);
}

/** Undefined while there is no result, `gone` once the project is deleted. */
export async function checkResult(db: Queries, id: bigint): Promise<ConnectionCheck | 'gone' | undefined> {
  const row = await db.selectFrom('connection_checks').select('answer').where('id', '=', id).executeTakeFirst();
  return row ? read(row) : 'gone';
}

export async function lastCheck(db: Queries, projectId: bigint): Promise<ConnectionCheck | undefined> {
  return read(await lastOf(db, projectId).select('answer').executeTakeFirst());
}

/** Files of other CI systems, as the last check found them: JSON of a list. */
export async function foundWorkflows(db: Queries, projectId: bigint): Promise<string> {
  const row = await lastOf(db, projectId).select('workflows').executeTakeFirst();
  return row?.workflows ?? '[]';
}

function lastOf(db: Queries, projectId: bigint) {
  return db
    .selectFrom('connection_checks')
    .where('project_id', '=', projectId)
    .where('answer', 'is not', null)
    .orderBy('id', 'desc');
}

function read(row: { answer: string | null } | undefined): ConnectionCheck | undefined {
  const answer = row?.answer ?? undefined;
  // A check of an older version has no workflows.
  return answer === undefined ? undefined : ({ workflows: [], ...JSON.parse(answer) } as ConnectionCheck);
}
