import type { Static } from 'typebox';
import { dateTime, ownId, integer, record, stateOf, string } from './schema.ts';
import { commitStates } from './states.ts';

const itemFields = { ...ownId, version: integer, ref: string, build_state: stateOf(commitStates) };

export const commitItemRecord = record('CommitItem', itemFields);
export type CommitItem = Static<typeof commitItemRecord>;

export const commitRecord = record('Commit', {
  ...itemFields,
  message: string,
  scm_author_name: string,
  scm_author_email: string,
  scm_authored_date: dateTime,
  scm_committer_name: string,
  scm_committer_email: string,
  scm_committed_date: dateTime,
});
export type Commit = Static<typeof commitRecord>;
