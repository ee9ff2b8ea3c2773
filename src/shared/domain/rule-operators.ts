export const subjects = [
  'commit.message',
  'commit.branches',
  'commit.tags',
  'commit.author_name',
  'commit.author_email',
  'commit.committer_email',
  'commit.ref',
  'commit.files',
  'request.event',
  'request.target_branch',
  'request.from_fork',
] as const;

export const operators = [
  'contains',
  'does_not_contain',
  'equals',
  'does_not_equal',
  'starts_with',
  'ends_with',
  'matches',
  'does_not_match',
  'all_match',
  'not_all_match',
] as const;
