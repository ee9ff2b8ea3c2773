import type { Transaction } from '../open.ts';

/**
 * What was applied to projects as documents, from where the contents of variables came, and which file in the repository
 * a project is configured by.
 */
export async function appliedDocuments(trx: Transaction): Promise<void> {
  await trx.schema
    .alterTable('environment_variables')
    .addColumn('from_env', 'text', (column) => column.notNull().defaultTo(''))
    .execute();
  await trx.schema
    .alterTable('projects')
    .addColumn('config_file', 'text', (column) => column.notNull().defaultTo(''))
    .execute();
  await trx.schema
    .createTable('project_documents')
    .addColumn('project_id', 'bigint', (column) => column.primaryKey().references('projects.id').onDelete('cascade'))
    .addColumn('document', 'text', (column) => column.notNull())
    .execute();
}
