import type { Dialect, FakeRepository, ForgeCall, Reply } from './fake-forge.ts';

export interface FakeComment {
  id: number;
  author: string;
  text: string;
  at: number;
  version: number;
  reactions: string[];
}

export interface FakePull {
  head: string;
  comments: FakeComment[];
}

/** What a forge has of pull requests. */
export interface FakePeople {
  dialect: Dialect;
  /** Everybody with an account, and their IDs. */
  accounts: Map<string, number>;
  isApp: boolean;
  nextId(): number;
  refused(status: number, message: string): Reply;
}

/** The owner of the token. */
const self = 'ada';
const ok = (body: unknown, status = 200): Reply => ({ status, body });
const gitlabLevels = { admin: 40, write: 30, read: 20 };
const longestPage = 50;

/** Answers calls about pull requests and who may do what; undefined for any other. */
export function answerPulls(
  forge: FakePeople,
  repository: FakeRepository,
  below: string,
  call: ForgeCall,
): Reply | undefined {
  if (forge.dialect === 'gitlab') return gitlab(forge, repository, below, call);
  if (forge.dialect === 'cloud') return cloud(forge, repository, below, call);
  if (forge.dialect === 'center') return center(forge, repository, below, call);
  return github(forge, repository, below, call);
}

function find(repository: FakeRepository, id: string | undefined): FakeComment | undefined {
  for (const { comments } of repository.pulls.values()) {
    const found = comments.find((one) => String(one.id) === id);
    if (found) return found;
  }
  return undefined;
}

function add(forge: FakePeople, pull: FakePull, text: unknown): FakeComment {
  const made = { id: forge.nextId(), author: self, text: String(text), at: Date.now(), version: 0, reactions: [] };
  pull.comments.push(made);
  return made;
}

function change(comment: FakeComment, text: unknown): void {
  comment.text = String(text);
  comment.version += 1;
}

function github(forge: FakePeople, repository: FakeRepository, below: string, call: ForgeCall): Reply | undefined {
  const { method, query, body } = call;
  const missing = forge.refused(404, 'Not Found');
  const [, login, permission] = /^collaborators\/([^/]+)(\/permission)?$/.exec(below) ?? [];
  if (login !== undefined) {
    const [level, id] = [repository.members[login], forge.accounts.get(login)];
    if (permission === undefined) return level === undefined ? missing : { status: 204 };
    if (id === undefined) return missing;
    const told = level ?? (repository.private ? 'none' : 'read');
    return ok({ permission: told, role_name: told, user: { id, login } });
  }
  const view = ({ id, text, author }: FakeComment) => ({
    id,
    body: text,
    user: { id: forge.accounts.get(author), login: author },
  });
  const [, commentId, reactions] = /^issues\/comments\/(\d+)(\/reactions)?$/.exec(below) ?? [];
  if (commentId !== undefined) {
    const comment = find(repository, commentId);
    if (!comment) return missing;
    if (reactions !== undefined) {
      const name = String(body.content);
      const isNew = !comment.reactions.includes(name);
      if (isNew) comment.reactions.push(name);
      return ok({ id: 1, content: name }, isNew ? 201 : 200);
    }
    if (method !== 'PATCH') return undefined;
    change(comment, body.body);
    return ok(view(comment));
  }
  const run = /^check-runs(?:\/(\d+))?$/.exec(below);
  if (run) {
    if (!forge.isApp) return forge.refused(403, 'You must authenticate via a GitHub App.');
    const given = (body.output as { annotations?: object[] } | undefined)?.annotations ?? [];
    if (given.length > 50) return forge.refused(422, 'No more than 50 annotations.');
    if (method === 'POST') {
      const made = { id: forge.nextId(), body, annotations: [...given] };
      repository.checkRuns.push(made);
      return ok({ id: made.id }, 201);
    }
    const known = repository.checkRuns.find(({ id }) => String(id) === run[1]);
    if (!known) return missing;
    known.annotations.push(...given);
    return ok({ id: known.id });
  }
  const [, kind, number, comments] = /^(pulls|issues)\/(\d+)(\/comments)?$/.exec(below) ?? [];
  const pull = repository.pulls.get(Number(number));
  if (number === undefined) return undefined;
  if (!pull) return missing;
  if (kind === 'pulls') return ok({ number: Number(number), head: { sha: pull.head } });
  if (comments === undefined) return undefined;
  if (method === 'POST') return ok(view(add(forge, pull, body.body)), 201);
  const since = Date.parse(query.get('since') ?? '');
  const shown = pull.comments.filter(({ at }) => !(at < since)).map(view);
  if (forge.dialect === 'gitea') return { ...ok(shown), headers: { 'x-total-count': String(shown.length) } };
  const size = Math.min(Number(query.get('per_page') ?? 30), longestPage);
  const page = Number(query.get('page') ?? 1);
  const next = shown.length > page * size ? { link: `<https://x/?page=${page + 1}>; rel="next"` } : {};
  return { ...ok(shown.slice((page - 1) * size, page * size)), headers: next };
}

function gitlab(forge: FakePeople, repository: FakeRepository, below: string, call: ForgeCall): Reply | undefined {
  const { method, body } = call;
  const missing = forge.refused(404, '404 Not Found');
  const [, account] = /^members\/all\/(\d+)$/.exec(below) ?? [];
  if (account !== undefined) {
    const [login = '', id] = [...forge.accounts].find(([, one]) => String(one) === account) ?? [];
    const level = repository.members[login];
    if (account === '7' && !repository.admin) return undefined;
    if (level === undefined) return missing;
    return ok({ id, username: login, access_level: gitlabLevels[level], state: 'active' });
  }
  const [, number, rest = ''] = /^merge_requests\/(\d+)(?:\/(.*))?$/.exec(below) ?? [];
  if (number === undefined) return undefined;
  const pull = repository.pulls.get(Number(number));
  if (!pull) return missing;
  if (rest === '') return ok({ iid: Number(number), sha: pull.head });
  const view = ({ id, text, author, at }: FakeComment) => ({
    id,
    body: text,
    created_at: new Date(at).toISOString(),
    author: { id: forge.accounts.get(author), username: author },
  });
  if (rest === 'notes' && method === 'POST') return ok(view(add(forge, pull, body.body)), 201);
  if (rest === 'notes') return ok(pull.comments.toReversed().slice(0, 100).map(view));
  const [, id, emoji] = /^notes\/(\d+)(\/award_emoji)?$/.exec(rest) ?? [];
  const comment = pull.comments.find((one) => String(one.id) === id);
  if (!comment) return missing;
  if (emoji === undefined) {
    change(comment, body.body);
    return ok(view(comment));
  }
  const name = String(body.name);
  if (comment.reactions.includes(name))
    return forge.refused(404, '404 Award Emoji Name has already been taken Not Found');
  comment.reactions.push(name);
  return ok({ id: 1, name }, 201);
}

function cloud(forge: FakePeople, repository: FakeRepository, below: string, call: ForgeCall): Reply | undefined {
  const { method, query, body } = call;
  const missing = forge.refused(404, 'Resource not found');
  const uuid = (login: string): string => `{${forge.accounts.get(login)}}`;
  if (below === 'permissions') {
    const [, wanted] = /^user\.uuid = "(.*)"$/.exec(query.get('q') ?? '') ?? [];
    const all = Object.entries(repository.members).filter(([login]) => uuid(login) === wanted);
    return ok({
      values: all.map(([login, permission]) => ({ permission, user: { uuid: uuid(login), nickname: login } })),
    });
  }
  const [, number, rest = ''] = /^pullrequests\/(\d+)(?:\/(.*))?$/.exec(below) ?? [];
  if (number === undefined) return undefined;
  const pull = repository.pulls.get(Number(number));
  if (!pull) return missing;
  // Twelve digits is all that Bitbucket Cloud tells.
  if (rest === '') return ok({ id: Number(number), source: { commit: { hash: pull.head.slice(0, 12) } } });
  const view = ({ id, text, author, at }: FakeComment) => ({
    id,
    content: { raw: text },
    created_on: new Date(at).toISOString(),
    user: { nickname: author, uuid: uuid(author) },
  });
  const raw = (body.content as { raw?: string } | undefined)?.raw;
  if (rest === 'comments' && method === 'POST') return ok(view(add(forge, pull, raw)), 201);
  if (rest === 'comments') return ok({ values: pull.comments.toReversed().map(view) });
  const comment = pull.comments.find((one) => rest === `comments/${one.id}`);
  if (!comment) return missing;
  change(comment, raw);
  return ok(view(comment));
}

function center(forge: FakePeople, repository: FakeRepository, below: string, call: ForgeCall): Reply | undefined {
  const { method, query, body } = call;
  const missing = forge.refused(404, 'There is no such thing.');
  const user = (login: string) => ({ id: forge.accounts.get(login), name: login, slug: login });
  if (below === 'users') {
    const levels = query.get('permission.1') === 'REPO_WRITE' ? ['admin', 'write'] : ['admin', 'write', 'read'];
    const among = ([login, level]: [string, string]): boolean =>
      login.includes(query.get('filter') ?? '') && levels.includes(level);
    return ok({
      values: Object.entries(repository.members)
        .filter(among)
        .map(([login]) => user(login)),
      isLastPage: true,
    });
  }
  const [, number, rest = ''] = /^pull-requests\/(\d+)(?:\/(.*))?$/.exec(below) ?? [];
  if (number === undefined) return undefined;
  const pull = repository.pulls.get(Number(number));
  if (!pull) return missing;
  if (rest === '') return ok({ id: Number(number), fromRef: { latestCommit: pull.head } });
  const view = ({ id, text, author, at, version }: FakeComment) => ({
    id,
    version,
    text,
    author: user(author),
    createdDate: at,
  });
  if (rest === 'comments' && method === 'POST') return ok(view(add(forge, pull, body.text)), 201);
  if (rest === 'activities') {
    const comments = pull.comments.toReversed().map((one) => ({ action: 'COMMENTED', comment: view(one) }));
    return ok({ values: [...comments, { action: 'OPENED' }], isLastPage: true });
  }
  const [, id, emoji] = /^comments\/(\d+)(?:\/reactions\/(\w+))?$/.exec(rest) ?? [];
  const comment = pull.comments.find((one) => String(one.id) === id);
  if (!comment) return missing;
  if (emoji !== undefined) {
    if (!comment.reactions.includes(emoji)) comment.reactions.push(emoji);
    return ok({ emoticon: { shortcut: emoji } });
  }
  if (method === 'PUT' && body.version !== comment.version)
    return forge.refused(409, 'You are editing an old version.');
  if (method === 'PUT') change(comment, body.text);
  return ok(view(comment));
}
