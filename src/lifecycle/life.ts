import { sql, type ExpressionBuilder, type SqlBool } from 'kysely';
import type { Database, Transaction } from '../db/open.ts';
import { prepared, preparedInsert } from '../db/prepared.ts';
import type { Schema } from '../db/schema.ts';
import type { IdSource } from '../lib/ids.ts';
import { tellOfBuilds } from './telling.ts';

/** One transaction in which states change, and what a change needs at hand. */
export interface Life {
  db: Database;
  trx: Transaction;
  ids: IdSource;
}

/** Announced when a record's state changes. */
export const subjectTopic = (id: bigint): string => `subject:${id}`;
/** Announced when anything in a project changes. */
export const projectTopic = (id: bigint): string => `project:${id}`;

/** Whoever looks first and acts then, such as somebody who asks for more, holds the project meanwhile: one at a time. */
export async function holdProject({ trx }: Pick<Life, 'trx'>, id: bigint): Promise<void> {
  await trx
    .updateTable('projects')
    .set((of) => ({ last_event: of.ref('last_event') }))
    .where('id', '=', id)
    .execute();
}

export interface Happening {
  projectId: bigint;
  subjectId: bigint;
  type: 'build' | 'commit' | 'build_request' | 'deploy' | 'dependency';
  state: string;
}

/** Also says whether anybody asked to be told: in most projects nobody did, and nothing more is spent on it. */
const nextSequence = prepared<{ id: bigint }, { last_event: bigint; is_told: SqlBool }>((db, value) =>
  db
    .updateTable('projects')
    .set((of) => ({ last_event: of('last_event', '+', sql.lit(1n)) }))
    .where('id', '=', value('id'))
    .returning((of) => ['last_event', of.exists(toBeTold(of)).as('is_told')]),
);

function toBeTold(of: ExpressionBuilder<Schema, 'projects'>) {
  return of
    .selectFrom('notifications')
    .select('notifications.id')
    .whereRef('notifications.project_id', '=', 'projects.id')
    .where('notifications.notifiable_type', '=', sql.lit('build'));
}

const insertEvent = preparedInsert('events');

/**
 * Writes down that something happened. Sequences are given out under the lock of the project's row, so within a
 * project they stand in the order of the commits: who reads from one on misses nothing.
 */
export async function happened(
  { db, trx, ids }: Life,
  { projectId, subjectId, type, state }: Happening,
): Promise<void> {
  const [project] = await nextSequence(trx, { id: projectId });
  if (!project) throw new Error(`project ${projectId} is gone`);
  const event = { id: ids.next(), project_id: projectId, sequence: project.last_event, subject_id: subjectId };
  await insertEvent(trx, { ...event, type, state, created_at: BigInt(Date.now()) });
  await db.announce(trx, subjectTopic(subjectId));
  await db.announce(trx, projectTopic(projectId));
  if (project.is_told) await tellOfBuilds({ db, trx, ids }, { projectId, subjectId, type, state });
}
