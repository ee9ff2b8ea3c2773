import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { answerPulls, type FakePull } from './fake-pulls.ts';

/**
 * Forges, made from what their API documentation says: GitHub, GitLab, Gitea, Bitbucket Cloud and Bitbucket Data Center, as
 * far as Headrace asks them. Real HTTP servers on loopback that remember what they were asked.
 */
export type Dialect = 'github' | 'gitlab' | 'gitea' | 'cloud' | 'center';

export interface FakeRepository {
  /** The forge's own, also under another name. */
  /** Undefined at a forge that does not tell it. */
  id: number | undefined;
  private: boolean;
  archived: boolean;
  admin: boolean;
  push: boolean;
  /** At GitLab: administered by a role in a parent group, which it does not tell with the repository. */
  inherited?: boolean;
  keys: { id: number; title: string; key: string; readOnly: boolean }[];
  hooks: { id: number; url: string; secret: string; active: boolean; events: string[] }[];
  pulls: Map<number, FakePull>;
  /** Who may do what, by the login. */
  members: Record<string, 'admin' | 'write' | 'read'>;
  checkRuns: { id: number; body: Record<string, unknown>; annotations: object[] }[];
  /** Where it has gone. */
  movedTo?: string;
  /** The name that is answered, if the forge answers for another one. */
  answersAs?: string;
  /** The addresses for git, where they are others. */
  ssh?: string;
  https?: string;
}

export interface ForgeCall {
  method: string;
  path: string;
  query: URLSearchParams;
  headers: IncomingHttpHeaders;
  body: Record<string, unknown>;
  /** When it came, by `performance.now()`. */
  at: number;
}

export interface Reply {
  status: number;
  body?: unknown;
  headers?: Record<string, string>;
}

/** Answers in the place of the forge; undefined leaves it to the forge. */
type Instead = Reply | 'answered' | undefined;
export type Interference = (call: ForgeCall, response: ServerResponse) => Instead | Promise<Instead>;

const bases: Record<Dialect, string> = {
  github: '/api/v3',
  gitlab: '/api/v4',
  gitea: '/api/v1',
  cloud: '/2.0',
  center: '/rest',
};

const gitlabEvents = ['push_events', 'tag_push_events', 'merge_requests_events', 'note_events'];

export const forgeToken = 'forge-token-0123456789-kittiwake';

export class FakeForge implements AsyncDisposable {
  readonly dialect: Dialect;
  readonly repositories = new Map<string, FakeRepository>();
  readonly calls: ForgeCall[] = [];
  /** The token that it takes. */
  token: string | undefined = forgeToken;
  /** Who is asked for its repositories over SSH. */
  ssh = 'git@forge.example.org';
  /** As its header tells them; undefined where it does not. */
  scopes: string | undefined;
  interfere: Interference = () => undefined;
  /** So many are on a page of a list, at most. */
  pageSize = 2;
  /** At GitHub: whether the token is an app's. */
  isApp = false;
  /** Everybody with an account, and their IDs. */
  readonly accounts = new Map([['ada', 7]]);
  /** The folder of its address, for a forge that has its host not for itself. */
  folder = '';
  #ids = 100;
  readonly #server = createServer((request, response) => void this.#serve(request, response));

  private constructor(dialect: Dialect) {
    this.dialect = dialect;
    this.scopes = {
      github: 'repo, read:org',
      gitlab: 'api',
      gitea: 'all',
      cloud: 'repository, repository:admin, webhook',
      center: '',
    }[dialect];
  }

  static async start(dialect: Dialect = 'github', ...names: string[]): Promise<FakeForge> {
    const forge = new FakeForge(dialect);
    for (const name of names) forge.add(name);
    forge.#server.listen(0, '127.0.0.1');
    await once(forge.#server, 'listening');
    return forge;
  }

  get provider(): string {
    return this.dialect === 'cloud' || this.dialect === 'center' ? 'bitbucket' : this.dialect;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}${this.folder}`;
  }

  get api(): string {
    return `${this.url}${bases[this.dialect]}`;
  }

  /** What somebody enters to connect it. */
  get fields(): Record<string, string> {
    return { provider: this.provider, url: this.url, token: this.token ?? forgeToken };
  }

  add(name: string, more: Partial<FakeRepository> = {}): FakeRepository {
    const made = {
      id: (this.#ids += 1),
      private: true,
      archived: false,
      admin: true,
      push: true,
      keys: [],
      hooks: [],
      pulls: new Map(),
      members: { ada: 'admin' as const },
      checkRuns: [],
      ...more,
    };
    this.repositories.set(name, made);
    return made;
  }

  of(name: string): FakeRepository {
    return this.repositories.get(name) ?? assert.fail(`there is no ${name}`);
  }

  /** Gives a repository another name. Who asks for the old one is led there. */
  rename(name: string, newName: string): void {
    const renamed = this.of(name);
    this.repositories.delete(name);
    this.repositories.set(newName, renamed);
    this.add(name, { movedTo: newName });
  }

  /** The requests so far, without their queries. */
  asked(method?: string): string[] {
    const those = this.calls.filter((call) => method === undefined || call.method === method);
    return those.map((call) => `${call.method} ${call.path}`);
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
    const url = new URL(request.url ?? '', 'http://forge');
    const text = Buffer.concat(chunks).toString();
    const call: ForgeCall = {
      method: request.method ?? '',
      path: url.pathname,
      query: url.searchParams,
      headers: request.headers,
      body: text === '' ? {} : (JSON.parse(text) as Record<string, unknown>),
      at: performance.now(),
    };
    this.calls.push(call);
    response.on('error', () => {});
    const answer = (await this.interfere(call, response)) ?? this.#answer(call);
    if (answer === 'answered') return;
    const type = { 'content-type': 'application/json', ...answer.headers };
    response.writeHead(answer.status, type).end(answer.body === undefined ? '' : JSON.stringify(answer.body));
  }

  #answer(call: ForgeCall): Reply {
    const base = `${this.folder}${bases[this.dialect]}`;
    if (!call.path.startsWith(`${base}/`)) return { status: 404, headers: { 'content-type': 'text/html' } };
    const path = call.path.slice(base.length);
    if (!this.#isSignedIn(call.headers)) return this.#refused(401, 'Bad credentials');
    const who = this.#who(path);
    if (who) return who;
    const found = this.#askedOfPeople(path, call) ?? this.#repositoryIn(path);
    if (!found) return this.#refused(404, 'Not Found');
    if ('list' in found) return this.#list(call, path);
    const name = [...this.repositories.keys()].find((one) => one.toLowerCase() === found.name.toLowerCase()) ?? '';
    const repository = this.repositories.get(name);
    if (!repository) return this.#refused(404, 'Not Found');
    if (repository.movedTo !== undefined) return this.#moved(repository.movedTo);
    if (found.below === '') return { status: 200, body: this.#view(name, repository) };
    const people = {
      dialect: this.dialect,
      accounts: this.accounts,
      isApp: this.isApp,
      nextId: () => (this.#ids += 1),
      refused: (status: number, message: string) => this.#refused(status, message),
    };
    const ofPulls = answerPulls(people, repository, found.below, call);
    if (ofPulls) return ofPulls;
    if (found.below === 'default-branch') return { status: 200, body: { displayId: 'main' } };
    if (found.below.startsWith('statuses') || /\/(statuses|builds)/.test(found.below)) return { status: 201, body: {} };
    if (found.below === 'members/all/7' && repository.inherited) return { status: 200, body: { access_level: 40 } };
    if (!repository.admin && !repository.inherited) return this.#refused(403, 'Must have admin rights to Repository.');
    const [kind = '', id] = found.below.split('/');
    if (['keys', 'deploy_keys', 'deploy-keys', 'ssh'].includes(kind)) return this.#keys(call, repository, id);
    if (['hooks', 'webhooks'].includes(kind)) return this.#hooks(call, repository, id);
    return this.#refused(404, 'Not Found');
  }

  #isSignedIn({ authorization, 'private-token': own }: IncomingHttpHeaders): boolean {
    const sent = { github: 'Bearer ', gitlab: '', gitea: 'token ', cloud: 'Bearer ', center: 'Bearer ' }[this.dialect];
    return this.token !== undefined && (this.dialect === 'gitlab' ? own : authorization) === `${sent}${this.token}`;
  }

  #refused(status: number, message: string): Reply {
    if (this.dialect === 'cloud') return { status, body: { type: 'error', error: { message } } };
    return { status, body: this.dialect === 'center' ? { errors: [{ message }] } : { message } };
  }

  #who(path: string): Reply | undefined {
    const scopes = this.scopes === undefined ? {} : { 'x-oauth-scopes': this.scopes };
    if (this.isApp && path === '/user') return this.#refused(403, 'Resource not accessible by integration');
    if (path === '/user') {
      if (this.dialect === 'gitlab') return { status: 200, body: { id: 7, username: 'ada' } };
      if (this.dialect === 'cloud') return { status: 200, body: { username: 'ada' }, headers: scopes };
      return { status: 200, body: { id: 7, login: 'ada' }, headers: this.dialect === 'github' ? scopes : {} };
    }
    if (path === '/personal_access_tokens/self')
      return this.scopes === undefined
        ? this.#refused(401, 'not a personal access token')
        : { status: 200, body: { scopes: this.scopes.split(', ') } };
    if (path === '/api/latest/application-properties')
      return { status: 200, body: { version: '9.4.0', displayName: 'Bitbucket' }, headers: { 'x-ausername': 'ada' } };
    if (path === '/user/workspaces') return { status: 200, body: { values: [{ workspace: { slug: 'team' } }] } };
    return undefined;
  }

  /** Bitbucket has the rights of users elsewhere. */
  #askedOfPeople(path: string, { query }: ForgeCall): { name: string; below: string } | undefined {
    const [, workspace, slug] = /^\/workspaces\/([^/]+)\/permissions\/repositories\/([^/]+)$/.exec(path) ?? [];
    if (workspace !== undefined) return { name: `${workspace}/${slug}`, below: 'permissions' };
    if (path !== '/api/latest/users') return undefined;
    return {
      name: `${query.get('permission.1.projectKey')}/${query.get('permission.1.repositorySlug')}`,
      below: 'users',
    };
  }

  #repositoryIn(path: string): { name: string; below: string } | { list: true } | undefined {
    if (this.isApp && path === '/installation/repositories') return { list: true };
    const lists = ['/user/repos', '/repos/search', '/projects', '/api/latest/repos', '/repositories/team'];
    if (lists.includes(path)) return { list: true };
    const forms: Record<Dialect, RegExp> = {
      github: /^\/repos\/([^/]+\/[^/]+)(?:\/(.*))?$/,
      gitea: /^\/repos\/([^/]+\/[^/]+)(?:\/(.*))?$/,
      gitlab: /^\/projects\/([^/]+)(?:\/(.*))?$/,
      cloud: /^\/repositories\/([^/]+\/[^/]+)(?:\/(.*))?$/,
      center: /^\/(?:api|keys|comment-likes)\/latest\/projects\/([^/]+\/repos\/[^/]+)(?:\/(.*))?$/,
    };
    const byId: Record<Dialect, RegExp | undefined> = {
      github: /^\/repositories\/(\d+)$/,
      gitea: /^\/repositories\/(\d+)$/,
      gitlab: /^\/projects\/(\d+)$/,
      cloud: /^\/repositories\/%7B%7D\/%7B(\d+)%7D$/,
      center: undefined,
    };
    const id = Number(byId[this.dialect]?.exec(path)?.[1] ?? Number.NaN);
    const known = [...this.repositories].find(([, one]) => one.id === id && one.movedTo === undefined);
    if (!Number.isNaN(id)) return { name: known?.[0] ?? '', below: '' };
    const [, name, below = ''] = forms[this.dialect].exec(path) ?? [];
    return name === undefined ? undefined : { name: decodeURIComponent(name).replace('/repos/', '/'), below };
  }

  #moved(name: string): Reply {
    const paths: Record<Dialect, string> = {
      github: `/repositories/${this.repositories.get(name)?.id ?? 0}`,
      gitea: `/repos/${name}`,
      gitlab: `/projects/${encodeURIComponent(name)}`,
      cloud: `/repositories/${name}`,
      center: `/api/latest/projects/${name.replace('/', '/repos/')}`,
    };
    return {
      status: 301,
      // Bitbucket Cloud is asked at an address that this one does not know.
      headers: { location: `${this.dialect === 'cloud' ? bases.cloud : this.api}${paths[this.dialect]}` },
      body: { message: 'Moved Permanently' },
    };
  }

  #view(name: string, repository: FakeRepository): object {
    const called = repository.answersAs ?? name;
    const ssh = repository.ssh ?? `${this.ssh}:${called}.git`;
    const https = repository.https ?? `https://forge.example.org/${called}.git`;
    const { id, private: isPrivate, archived, admin, push } = repository;
    if (this.dialect === 'gitlab')
      return {
        id,
        path_with_namespace: called,
        ssh_url_to_repo: ssh,
        http_url_to_repo: https,
        default_branch: 'main',
        visibility: isPrivate ? 'private' : 'public',
        archived,
        permissions: { project_access: { access_level: admin ? 40 : push ? 30 : 20 }, group_access: null },
      };
    const clone = (web: string) => [
      { name: 'ssh', href: ssh },
      { name: web, href: https.replace('https://', 'https://ada@') },
    ];
    if (this.dialect === 'cloud')
      return {
        ...(id !== undefined && { uuid: `{${id}}` }),
        full_name: called,
        is_private: isPrivate,
        mainbranch: { name: 'main' },
        links: { clone: clone('https') },
      };
    if (this.dialect === 'center') {
      const [key = '', slug = ''] = called.split('/');
      return { id, slug, project: { key }, public: !isPrivate, archived, links: { clone: clone('http') } };
    }
    return {
      id,
      full_name: called,
      ssh_url: ssh,
      clone_url: https,
      default_branch: 'main',
      private: isPrivate,
      archived,
      permissions: { admin, push, pull: true },
    };
  }

  #list({ query, path: whole }: ForgeCall, path: string): Reply {
    const wanted = (query.get('q') ?? query.get('search') ?? query.get('name') ?? '').replace(
      /^full_name [~=] "(.*)"$/,
      '$1',
    );
    const [role, permission] = [query.get('role'), query.get('permission')];
    const least = Number(query.get('min_access_level') ?? 0);
    const isNamed = (name: string): boolean => {
      // Gitea's search knows the names of repositories alone, but with a slash in it also their owners'.
      if (this.dialect !== 'gitea' || !wanted.includes('/'))
        return (this.dialect === 'gitea' ? name.slice(name.indexOf('/')) : name).includes(wanted);
      const [[owner = '', own = ''], [byOwner = '', byName = '']] = [name.split('/'), wanted.split('/')];
      return owner.includes(byOwner) && own.includes(byName);
    };
    const isAsked = ([name, one]: [string, FakeRepository]): boolean =>
      isNamed(name) &&
      (least < 40 || one.admin || one.inherited === true) &&
      (role === 'admin' || permission === 'REPO_ADMIN' ? one.admin : true) &&
      (role === null && permission === null && this.dialect !== 'gitlab' ? true : one.push);
    const all = [...this.repositories].filter(isAsked).map(([name, one]) => this.#view(name, one));
    const asked = ['per_page', 'limit', 'pagelen'].map((name) => Number(query.get(name))).find((size) => size > 0);
    const size = Math.min(asked ?? 30, this.pageSize);
    const page = query.has('start') ? Number(query.get('start')) / Number(asked) + 1 : Number(query.get('page') ?? 1);
    const values = all.slice((page - 1) * size, page * size);
    const hasMore = all.length > page * size;
    const next: Record<string, string> = hasMore ? { link: `<${this.url}${whole}?page=${page + 1}>; rel="next"` } : {};
    if (path === '/installation/repositories') return { status: 200, body: { repositories: values }, headers: next };
    if (path === '/repos/search') return { status: 200, body: { ok: true, data: values }, headers: next };
    if (this.dialect === 'cloud') return { status: 200, body: { values, ...(hasMore && { next: 'https://x/' }) } };
    if (this.dialect === 'center') return { status: 200, body: { values, isLastPage: !hasMore } };
    return { status: 200, body: values, headers: next };
  }

  /** Gitea tells how many there are, and has no links to the other pages of keys and hooks. */
  #paged(all: object[], { query }: ForgeCall): Reply {
    if (this.dialect === 'cloud' || this.dialect === 'center')
      return { status: 200, body: { values: all, isLastPage: true } };
    if (this.dialect !== 'gitea') return { status: 200, body: all };
    const size = Math.min(Number(query.get('limit') ?? 30), 50);
    const from = (Number(query.get('page') ?? 1) - 1) * size;
    return { status: 200, body: all.slice(from, from + size), headers: { 'x-total-count': String(all.length) } };
  }

  #keys(call: ForgeCall, repository: FakeRepository, id: string | undefined): Reply {
    const { method, body } = call;
    if (method === 'DELETE') {
      repository.keys = repository.keys.filter((key) => String(key.id) !== id);
      return { status: 204 };
    }
    if (method === 'GET') {
      const shown = repository.keys.map((one) =>
        this.dialect === 'center' ? { key: { id: one.id, text: one.key } } : { id: one.id, key: one.key },
      );
      return this.#paged(shown, call);
    }
    const nested = body.key as { text: string; label: string };
    const sent = this.dialect === 'center' ? nested.text : String(body.key);
    const [type = '', material = ''] = sent.split(' ');
    const plain = `${type} ${material}`;
    const inUse = [...this.repositories.values()].some(({ keys }) => keys.some(({ key }) => key.startsWith(plain)));
    if (inUse) return this.#refused(422, 'key is already in use');
    const readOnly = {
      github: body.read_only === true,
      gitea: body.read_only === true,
      gitlab: body.can_push === false,
      cloud: true,
      center: body.permission === 'REPO_READ',
    }[this.dialect];
    const title = this.dialect === 'center' ? nested.label : String(body.title ?? body.label);
    if (this.dialect === 'gitea' && repository.keys.some((key) => key.title === title))
      return this.#refused(422, 'A key with the same name already exists');
    // Most forges leave the comment of a key out.
    repository.keys.push({ id: (this.#ids += 1), title, key: plain, readOnly });
    return { status: 201, body: {} };
  }

  #hooks(call: ForgeCall, repository: FakeRepository, id: string | undefined): Reply {
    const { method, body } = call;
    const idOf = (hook: { id: number }): number | string => (this.dialect === 'cloud' ? `{${hook.id}}` : hook.id);
    if (method === 'DELETE') {
      repository.hooks = repository.hooks.filter((hook) => String(idOf(hook)) !== decodeURIComponent(id ?? ''));
      return { status: 204 };
    }
    const github = this.dialect === 'github' || this.dialect === 'gitea';
    if (method === 'GET') {
      const shown = repository.hooks.map((hook) => ({
        [this.dialect === 'cloud' ? 'uuid' : 'id']: idOf(hook),
        active: hook.active,
        ...(github ? { config: { url: hook.url, content_type: 'json' } } : { url: hook.url }),
        ...(this.dialect === 'gitlab'
          ? Object.fromEntries(gitlabEvents.map((name) => [name, hook.events.includes(name)]))
          : { events: hook.events }),
      }));
      return this.#paged(shown, call);
    }
    const config = (body.config ?? body.configuration ?? {}) as Record<string, string>;
    const flags = gitlabEvents.filter((name) => body[name] === true);
    repository.hooks.push({
      id: (this.#ids += 1),
      url: String(config.url ?? body.url),
      secret: String(config.secret ?? body.secret ?? body.token),
      active: true,
      events: (body.events as string[] | undefined) ?? flags,
    });
    return { status: 201, body: {} };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}
