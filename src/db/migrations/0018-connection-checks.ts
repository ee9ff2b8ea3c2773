import type { Transaction } from '../open.ts';

/** The results of checks whether a project's repository can be reached. */
export async function connectionChecks(trx: Transaction): Promise<void> {
  await trx.schema
    .createTable('connection_checks')
    .addColumn('id', 'bigint', (column) => column.primaryKey())
    .addColumn('project_id', 'bigint', (column) => column.notNull().references('projects.id').onDelete('cascade'))
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .addColumn('answer', 'text')
    .execute();
  await trx.schema
    .createIndex('connection_checks_of_project')
    .on('connection_checks')
    .columns(['project_id', 'id'])
    .execute();
}
