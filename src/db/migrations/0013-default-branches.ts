import type { Transaction } from '../open.ts';

/** What a project's state goes by, and the branch that a commit was last taken to be on. */
export async function defaultBranches(trx: Transaction): Promise<void> {
  // Not a reference: commits refer to projects, and go with them. Until the next fetch it is not known.
  await trx.schema.alterTable('projects').addColumn('trunk_commit_id', 'bigint').execute();
  await trx.schema
    .alterTable('commits')
    .addColumn('branch', 'text', (column) => column.notNull().defaultTo(''))
    .execute();
}
