import { sql } from 'kysely';
import type { Transaction } from '../open.ts';
import type { ColumnTypes } from '../migrate.ts';

/** The tables for runners: the queue, events, logs, and fetched commits. */
export async function work(trx: Transaction, types: ColumnTypes): Promise<void> {
  await trx.schema
    .createTable('jobs')
    .addColumn('id', 'bigint', (column) => column.primaryKey())
    .addColumn('kind', 'text', (column) => column.notNull())
    .addColumn('subject_id', 'bigint', (column) => column.notNull())
    .addColumn('account_id', 'bigint', (column) => column.notNull())
    .addColumn('lane', 'text')
    .addColumn('tries', 'integer', (column) => column.notNull())
    .addColumn('run_after', 'bigint', (column) => column.notNull())
    .addColumn('claim', 'text')
    .addColumn('holder', 'text')
    .addColumn('claimed_until', 'bigint')
    .addColumn('cancelled', 'integer', (column) => column.notNull())
    .execute();
  // A claim searches the waiting jobs; a sweep searches the claimed ones.
  await trx.schema
    .createIndex('jobs_waiting')
    .on('jobs')
    .columns(['account_id', 'id'])
    .where(sql.ref('claim'), 'is', null)
    .execute();
  await trx.schema
    .createIndex('jobs_claimed')
    .on('jobs')
    .column('claimed_until')
    .where(sql.ref('claim'), 'is not', null)
    .execute();
  await trx.schema.createIndex('jobs_claim').unique().on('jobs').column('claim').execute();
  await trx.schema.createIndex('jobs_of_subject').on('jobs').column('subject_id').execute();
  await trx.schema.createIndex('jobs_of_lane').on('jobs').columns(['lane', 'id']).execute();

  await trx.schema
    .createTable('queue_turns')
    .addColumn('account_id', 'bigint', (column) => column.primaryKey())
    .addColumn('turn', 'bigint', (column) => column.notNull())
    .execute();
  await trx.schema.createIndex('queue_turns_next').on('queue_turns').column('turn').execute();

  await trx.schema
    .createTable('events')
    .addColumn('id', 'bigint', (column) => column.primaryKey())
    .addColumn('project_id', 'bigint', (column) => column.notNull().references('projects.id').onDelete('cascade'))
    .addColumn('sequence', 'bigint', (column) => column.notNull())
    .addColumn('subject_id', 'bigint', (column) => column.notNull())
    .addColumn('type', 'text', (column) => column.notNull())
    .addColumn('state', 'text', (column) => column.notNull())
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .addUniqueConstraint('events_sequence', ['project_id', 'sequence'])
    .execute();
  await trx.schema.createIndex('events_of_subject').on('events').columns(['subject_id', 'sequence']).execute();
  await trx.schema
    .alterTable('projects')
    .addColumn('last_event', 'bigint', (column) => column.notNull().defaultTo(0))
    .execute();

  await trx.schema
    .createTable('logs')
    .addColumn('id', 'bigint', (column) => column.primaryKey())
    .addColumn('project_id', 'bigint', (column) => column.references('projects.id').onDelete('cascade'))
    .addColumn('size', 'bigint', (column) => column.notNull())
    .addColumn('complete', 'integer', (column) => column.notNull())
    .addColumn('blob', 'text')
    .execute();
  await trx.schema
    .createTable('log_chunks')
    .addColumn('log_id', 'bigint', (column) => column.notNull().references('logs.id').onDelete('cascade'))
    .addColumn('start', 'bigint', (column) => column.notNull())
    .addColumn('bytes', sql.raw<'bytea'>(types.bytes), (column) => column.notNull())
    .addPrimaryKeyConstraint('log_chunks_start', ['log_id', 'start'])
    .execute();

  await trx.schema
    .createTable('built_refs')
    .addColumn('id', 'bigint', (column) => column.primaryKey())
    .addColumn('project_id', 'bigint', (column) => column.notNull().references('projects.id').onDelete('cascade'))
    .addColumn('name', 'text', (column) => column.notNull())
    .addColumn('commit_id', 'bigint', (column) => column.notNull().references('commits.id').onDelete('cascade'))
    .addUniqueConstraint('built_refs_name', ['project_id', 'name'])
    .execute();
  await trx.schema.createIndex('built_refs_of_commit').on('built_refs').column('commit_id').execute();

  await trx.schema
    .alterTable('build_requests')
    .addColumn('branch', 'text', (column) => column.notNull().defaultTo(''))
    .execute();
  await trx.schema
    .alterTable('build_requests')
    .addColumn('fetch', 'text', (column) => column.notNull().defaultTo('waiting'))
    .execute();

  await trx.schema
    .createTable('runners')
    .addColumn('id', 'bigint', (column) => column.primaryKey())
    .addColumn('name', 'text', (column) => column.notNull().unique())
    .addColumn('token_hash', 'text', (column) => column.notNull().unique())
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .execute();
}
