import type { Transaction } from '../open.ts';

/** The commit that determines a project's state, and the branch of a commit at its last fetch. */
export async function defaultBranches(trx: Transaction): Promise<void> {
  // Not a foreign key: commits refer to projects, and are deleted with them. It is unknown until the next fetch.
  await trx.schema.alterTable('projects').addColumn('trunk_commit_id', 'bigint').execute();
  await trx.schema
    .alterTable('commits')
    .addColumn('branch', 'text', (column) => column.notNull().defaultTo(''))
    .execute();
}
