import type { CommitRow } from '../db/schema.ts';
import type { Commit, CommitItem } from '../../shared/records/commit.ts';
import { withIdString } from './id-string.ts';

type Item = Pick<CommitRow, 'id' | 'version' | 'ref' | 'build_state'>;

export function commitItemView({ id, version, ref, build_state }: Item): CommitItem {
  return { ...withIdString('id', id), version, ref, build_state };
}

export function commitView(commit: CommitRow): Commit {
  return {
    ...commitItemView(commit),
    message: commit.message,
    scm_author_name: commit.scm_author_name,
    scm_author_email: commit.scm_author_email,
    scm_authored_date: commit.scm_authored_date,
    scm_committer_name: commit.scm_committer_name,
    scm_committer_email: commit.scm_committer_email,
    scm_committed_date: commit.scm_committed_date,
  };
}
