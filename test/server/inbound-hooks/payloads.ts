/** Payloads with what each forge really sends in them that anybody here looks at, and some that nobody should. */

export const sha = 'c0ffee'.padEnd(40, '0');
const zeros = '0'.repeat(40);
/** A name that is nobody's at the forge: whoever commits can claim any. */
const author = { name: 'mallory', email: 'owner@example.org', username: 'owner' };

export interface Told {
  ref?: string;
  sha?: string;
  message?: string;
  deleted?: boolean;
  name?: string;
  sender?: string;
}

export interface Pull {
  action?: string;
  number?: number;
  sha?: string;
  /** The repository it comes from; null where that was deleted. */
  head?: string | null;
  target?: string;
  sender?: string;
  message?: string;
}

export interface Comment {
  text: string;
  id?: number;
  number?: number;
  author?: string;
  authorId?: number;
  action?: string;
  /** On an issue, and not on a pull request. */
  isIssue?: boolean;
}

const own = 'team/code';
/** A number for each name, as forges have. */
const numberOf = (name: string): number => Array.from(name).reduce((sum, letter) => sum * 31 + letter.charCodeAt(0), 7);

const githubRepository = (name: string) => ({
  id: numberOf(name),
  full_name: name,
  ssh_url: `git@example.org:${name}.git`,
  clone_url: `https://example.org/${name}.git`,
  html_url: `https://example.org/${name}`,
});

export const github = {
  push: ({ ref = 'refs/heads/main', deleted = false, name = own, sender = 'octocat', ...told }: Told = {}) => ({
    ref,
    before: 'f'.repeat(40),
    after: deleted ? zeros : (told.sha ?? sha),
    deleted,
    head_commit: deleted ? null : { id: told.sha ?? sha, message: told.message ?? 'Mend', author, committer: author },
    commits: [],
    pusher: { name: sender, email: 'x@example.org' },
    repository: githubRepository(name),
    sender: { login: sender, id: 1 },
  }),
  pull: ({ action = 'opened', number = 7, head = own, target = 'main', sender = 'octocat', ...told }: Pull = {}) => ({
    action,
    number,
    pull_request: {
      number,
      user: { login: 'opener' },
      head: { ref: 'topic', sha: told.sha ?? sha, repo: head === null ? null : githubRepository(head) },
      base: { ref: target, sha: 'b'.repeat(40), repo: githubRepository(own) },
    },
    repository: githubRepository(own),
    sender: { login: sender },
  }),
  comment: ({
    text,
    id = 1,
    number = 7,
    author: login = 'ada',
    authorId = 7,
    action = 'created',
    ...more
  }: Comment) => ({
    action,
    issue: {
      number,
      user: { login: 'opener', id: 99 },
      ...(!more.isIssue && { pull_request: { html_url: 'https://x/' } }),
    },
    comment: { id, body: text, user: { login, id: authorId, type: 'User' } },
    repository: githubRepository(own),
    sender: { login, id: authorId },
  }),
};

const gitlabProject = (name: string) => ({
  id: numberOf(name),
  path_with_namespace: name,
  git_ssh_url: `git@example.org:${name}.git`,
  git_http_url: `https://example.org/${name}.git`,
  web_url: `https://example.org/${name}`,
});

export const gitlab = {
  push: ({ ref = 'refs/heads/main', deleted = false, name = own, sender = 'tanuki', ...told }: Told = {}) => ({
    object_kind: ref.startsWith('refs/tags/') ? 'tag_push' : 'push',
    ref,
    before: 'f'.repeat(40),
    after: deleted ? zeros : (told.sha ?? sha),
    checkout_sha: deleted ? null : (told.sha ?? sha),
    user_name: 'Tanuki Display',
    user_username: sender,
    project: gitlabProject(name),
    commits: [
      { id: 'a'.repeat(40), message: 'Older [skip ci]', author },
      { id: told.sha ?? sha, message: told.message ?? 'Mend', author },
    ],
  }),
  merge: ({ action = 'open', number = 7, head = own, target = 'main', sender = 'tanuki', ...told }: Pull = {}) => ({
    object_kind: 'merge_request',
    user: { username: sender, name: 'Tanuki Display' },
    project: gitlabProject(own),
    object_attributes: {
      iid: number,
      id: 9000 + number,
      action,
      source_branch: 'topic',
      target_branch: target,
      source_project_id: head === null ? null : numberOf(head),
      target_project_id: numberOf(own),
      last_commit: { id: told.sha ?? sha, message: told.message ?? 'Mend', author },
    },
  }),
  note: ({
    text,
    id = 1,
    number = 7,
    author: username = 'ada',
    authorId = 7,
    action = 'create',
    isIssue,
  }: Comment) => ({
    object_kind: 'note',
    user: { id: authorId, username },
    project: gitlabProject(own),
    object_attributes: {
      id,
      note: text,
      action,
      noteable_type: isIssue ? 'Issue' : 'MergeRequest',
      author_id: authorId,
      system: false,
      created_at: '2026-03-01 10:00:00 UTC',
      updated_at: '2026-03-01 10:00:00 UTC',
    },
    [isIssue ? 'issue' : 'merge_request']: { iid: number },
  }),
};

const cloudRepository = (name: string) => ({
  uuid: `{${numberOf(name)}}`,
  full_name: name,
  links: { html: { href: `https://example.org/${name}` } },
});

export interface CloudChange {
  type?: string;
  name: string;
  hash?: string;
  message?: string;
  deleted?: boolean;
}

export const bitbucket = {
  push: (changes: CloudChange[] = [{ name: 'main' }], { name = own, sender = 'bucket' } = {}) => ({
    actor: { nickname: sender, display_name: 'Bucket Display', uuid: '{1}' },
    repository: cloudRepository(name),
    push: {
      changes: changes.map(({ type = 'branch', name: ref, hash = sha, message = 'Mend', deleted = false }) => {
        const place = { type, name: ref, target: { hash, message, author } };
        return deleted ? { new: null, old: place, closed: true } : { new: place, old: null, created: true };
      }),
    },
  }),
  pull: ({ number = 7, head = own, target = 'main', sender = 'bucket', ...told }: Pull = {}) => ({
    actor: { nickname: sender },
    repository: cloudRepository(own),
    pullrequest: {
      id: number,
      // Twelve digits is all that Bitbucket Cloud tells.
      source: {
        branch: { name: 'topic' },
        commit: { hash: (told.sha ?? sha).slice(0, 12) },
        repository: head === null ? null : cloudRepository(head),
      },
      destination: { branch: { name: target }, commit: { hash: 'b'.repeat(12) }, repository: cloudRepository(own) },
    },
  }),
  comment: ({ text, id = 1, number = 7, author: nickname = 'ada', authorId = 7 }: Comment) => ({
    actor: { nickname },
    repository: cloudRepository(own),
    pullrequest: { id: number },
    comment: { id, content: { raw: text }, user: { uuid: `{${authorId}}`, nickname, account_id: '557058:1' } },
  }),
};

const centerRepository = (name: string) => {
  const [key = '', slug = ''] = name.split('/');
  return { slug, id: numberOf(name), project: { key: key.toUpperCase() } };
};

export const center = {
  push: (changes: { ref: string; toHash?: string; type?: string }[], { name = own, sender = 'admin' } = {}) => ({
    eventKey: 'repo:refs_changed',
    actor: { name: sender, displayName: 'Administrator' },
    repository: centerRepository(name),
    changes: changes.map(({ ref, toHash = sha, type = 'UPDATE' }) => ({
      ref: { id: ref, displayId: ref.split('/').at(-1), type: ref.startsWith('refs/tags/') ? 'TAG' : 'BRANCH' },
      refId: ref,
      fromHash: 'f'.repeat(40),
      toHash,
      type,
    })),
  }),
  pull: ({ number = 7, head = own, target = 'main', sender = 'admin', ...told }: Pull = {}) => ({
    actor: { name: sender },
    pullRequest: {
      id: number,
      fromRef: {
        id: 'refs/heads/topic',
        displayId: 'topic',
        latestCommit: told.sha ?? sha,
        ...(head === null ? {} : { repository: centerRepository(head) }),
      },
      toRef: { id: `refs/heads/${target}`, displayId: target, repository: centerRepository(own) },
    },
  }),
  comment: ({ text, id = 1, number = 7, author: name = 'ada', authorId = 7 }: Comment) => ({
    actor: { name },
    pullRequest: { id: number, toRef: { repository: centerRepository(own) } },
    comment: { id, version: 0, text, author: { id: authorId, name, slug: name } },
  }),
};
