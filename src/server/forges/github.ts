import * as Type from 'typebox';
import type { Static } from 'typebox';
import { forgeProviders } from '../../shared/domain/forge-providers.ts';
import type { BuildState } from '../lifecycle/states.ts';
import type { ForgeApi } from './api.ts';
import {
  encoded,
  ForgeError,
  hasEvents,
  type Forge,
  type ForgeRepository,
  type Identity,
  type RepositoryPage,
  type Right,
  type StatusForm,
} from './forge.ts';
import { nextIn, pagesOf, unlessMoved } from './pages.ts';

export function githubApi(url: string): string {
  return url === forgeProviders.github.url ? 'https://api.github.com' : `${url}/api/v3`;
}

export function githubHeaders(token: string): Record<string, string> {
  return {
    accept: 'application/vnd.github+json',
    authorization: `Bearer ${token}`,
    'x-github-api-version': '2022-11-28',
  };
}

/** GitHub has no state for running, cancelled or skipped. A commit that was not tested must not look tested. */
const states: Record<BuildState, string> = {
  enqueued: 'pending',
  waiting_for_approval: 'pending',
  running: 'pending',
  passed: 'success',
  failed: 'failure',
  timed_out: 'failure',
  errored: 'error',
  cancelled: 'error',
  skipped: 'error',
};

export const githubStatus: StatusForm = {
  path: (repository, sha) => `/repos/${encoded(repository)}/statuses/${sha}`,
  states,
  body: ({ state, context, description, address }) => ({ state, target_url: address, description, context }),
};

const id = Type.Integer();
const user = Type.Object({ login: Type.String() });
export const repositorySchema = Type.Object({
  id: Type.Optional(id),
  full_name: Type.String(),
  ssh_url: Type.String(),
  clone_url: Type.String(),
  default_branch: Type.Optional(Type.Union([Type.String(), Type.Null()])),
  private: Type.Boolean(),
  archived: Type.Optional(Type.Boolean()),
  permissions: Type.Optional(
    Type.Object({ admin: Type.Optional(Type.Boolean()), push: Type.Optional(Type.Boolean()) }),
  ),
});
type Told = Static<typeof repositorySchema>;

export function repositoryOf(told: Told): ForgeRepository {
  return {
    id: String(told.id ?? ''),
    full_name: told.full_name,
    ssh_url: told.ssh_url,
    https_url: told.clone_url,
    default_branch: told.default_branch ?? '',
    private: told.private,
    archived: told.archived ?? false,
    may_administer: told.permissions?.admin ?? false,
  };
}

export const mayPush = ({ permissions }: Told): boolean => permissions?.push ?? false;

/** `push` covers tags too. */
const hookEvents = ['push', 'pull_request'];
/** In the language of GitHub's API, pull requests are issues. Gitea has an event of its own. */
const commentEvents = { web: 'issue_comment', gitea: 'pull_request_comment' };

const mayPushAs = ['owner', 'admin', 'maintain', 'write'];

const of = (repository: string): string => `/repos/${encoded(repository)}`;

export function likeGithub(
  api: ForgeApi,
  hookType: keyof typeof commentEvents,
): Omit<Forge, 'whoami' | 'repositories'> & Required<Pick<Forge, 'repositoryWithId'>> {
  const commentEvent = commentEvents[hookType];
  const comment = Type.Object({ id, body: Type.String(), user: Type.Union([user, Type.Null()]) });
  const fetched = (path: string) => api.get(path, repositorySchema);
  return {
    async repository(name) {
      return repositoryOf((await unlessMoved(fetched, of(name), ({ value }) => value.full_name)).value);
    },
    repositoryWithId: async (own) => repositoryOf((await fetched(`/repositories/${encodeURIComponent(own)}`)).value),
    async keys(repository) {
      const keys = await pagesOf((page) =>
        api.get(
          `${of(repository)}/keys?per_page=100&limit=50&page=${page}`,
          Type.Array(Type.Object({ id, key: Type.String() })),
        ),
      );
      return keys.map(({ id: number, key }) => ({ id: String(number), key }));
    },
    addKey: (repository, title, key) => api.post(`${of(repository)}/keys`, { title, key, read_only: true }),
    removeKey: (repository, key) => api.delete(`${of(repository)}/keys/${encodeURIComponent(key)}`),
    async hooks(repository) {
      const config = Type.Object({ url: Type.Optional(Type.String()) });
      const hooks = await pagesOf((page) =>
        api.get(
          `${of(repository)}/hooks?per_page=100&limit=50&page=${page}`,
          Type.Array(
            Type.Object({ id, active: Type.Boolean(), config, events: Type.Optional(Type.Array(Type.String())) }),
          ),
        ),
      );
      return hooks.map((hook) => ({
        id: String(hook.id),
        url: hook.config.url ?? '',
        active: hook.active && hasEvents(hook.events, hookEvents),
        hasComments: hasEvents(hook.events, [commentEvent]),
      }));
    },
    async addHook(repository, { url, secret, comments }) {
      const events = [...hookEvents, ...(comments ? [commentEvent] : [])];
      const wanted = { active: true, events, config: { url, content_type: 'json', secret } };
      await api.post(
        `${of(repository)}/hooks`,
        hookType === 'web' ? { name: 'web', ...wanted } : { type: hookType, ...wanted },
      );
    },
    removeHook: (repository, hook) => api.delete(`${of(repository)}/hooks/${encodeURIComponent(hook)}`),
    async standing(repository, account) {
      const path = `${of(repository)}/collaborators/${encodeURIComponent(account.login)}`;
      const told = Type.Object({ permission: Type.String(), user: Type.Object({ id }) });
      const found = await api.orMissing(api.get(`${path}/permission`, told));
      if (found === undefined || String(found.value.user.id) !== account.id) return 'stranger';
      if (mayPushAs.includes(found.value.permission)) return 'pushes';
      // Everybody may read a public repository.
      return (await api.has(path)) ? 'known' : 'stranger';
    },
    async head(repository, pull) {
      const head = Type.Object({ head: Type.Object({ sha: Type.String() }) });
      return (await api.get(`${of(repository)}/pulls/${pull}`, head)).value.head.sha;
    },
    async comments(repository, pull, since) {
      const asked = `since=${since.toISOString()}&per_page=100&limit=50`;
      const found = await pagesOf((page) =>
        api.get(`${of(repository)}/issues/${pull}/comments?${asked}&page=${page}`, Type.Array(comment)),
      );
      return found.map(({ id: number, body: text, user: by }) => ({
        id: String(number),
        text,
        authors: by ? [by.login] : [],
      }));
    },
    async addComment(repository, pull, body) {
      const path = `${of(repository)}/issues/${pull}/comments`;
      return String((await api.send('POST', path, { body }, Type.Object({ id }))).id);
    },
    async changeComment(repository, _, own, body) {
      await api.send(
        'PATCH',
        `${of(repository)}/issues/comments/${encodeURIComponent(own)}`,
        { body },
        Type.Object({}),
      );
    },
    async react(repository, _, own) {
      const path = `${of(repository)}/issues/comments/${encodeURIComponent(own)}/reactions`;
      await api.send('POST', path, { content: '+1' }, Type.Object({}));
    },
  };
}

/** GitHub cannot search the repositories that a user may push to. A search reads this many pages of them. */
const searchedPages = 20;
const askedAtOnce = 5;
const wholeName = /^[\w.-]+\/[\w.-]+$/;

const annotationsAtOnce = 50;

/** The token of an app's installation begins so. It is no user's. */
export const isAppToken = (token: string): boolean => token.startsWith('ghs_');

/** GitHub does not report an app's rights with a repository. */
const ofApp = (repository: ForgeRepository): ForgeRepository => ({ ...repository, may_administer: true });

function githubApp(api: ForgeApi): Forge {
  const like = likeGithub(api, 'web');
  const list = Type.Object({ repositories: Type.Array(repositorySchema) });
  const page = (number: number, size: number) =>
    api.get(`/installation/repositories?per_page=${size}&page=${number}`, list);
  return {
    ...like,
    async whoami() {
      await page(1, 1);
      return { login: '', may: null, lacks: [] };
    },
    async repositories(query, number) {
      const { value, headers } = await page(number, 100);
      const fits = ({ full_name: name }: Told): boolean => name.toLowerCase().includes(query.toLowerCase());
      const repositories = value.repositories.filter(fits).map((told) => ofApp(repositoryOf(told)));
      return { repositories, hasMore: nextIn(headers) };
    },
    repository: async (name) => ofApp(await like.repository(name)),
    repositoryWithId: async (own) => ofApp(await like.repositoryWithId(own)),
    async addCheckRun(repository, { sha, address, conclusion, annotations, ...shown }) {
      const output = (first: number) => ({
        ...shown,
        annotations: annotations.slice(first, first + annotationsAtOnce),
      });
      const about = { name: 'Headrace notes', head_sha: sha, details_url: address, status: 'completed', conclusion };
      const path = `${of(repository)}/check-runs`;
      const made = await api.send('POST', path, { ...about, output: output(0) }, Type.Object({ id }));
      // A change adds its annotations to the earlier ones.
      for (let first = annotationsAtOnce; first < annotations.length; first += annotationsAtOnce)
        await api.send('PATCH', `${path}/${made.id}`, { output: output(first) }, Type.Object({}));
      return String(made.id);
    },
  };
}

export function github(api: ForgeApi, isApp = false): Forge {
  if (isApp) return githubApp(api);
  const page = (number: number) =>
    api.get(`/user/repos?sort=pushed&direction=desc&per_page=100&page=${number}`, Type.Array(repositorySchema));
  const like = likeGithub(api, 'web');
  const part = async (first: number) => {
    const all: Told[] = [];
    let hasMore = true;
    for (let at = first; hasMore && at < first + searchedPages;) {
      const count = at === 1 ? 1 : askedAtOnce - ((at - 1) % askedAtOnce);
      const answers = await Promise.all(Array.from({ length: count }, (_, more) => page(at + more)));
      for (const { value } of answers) all.push(...value);
      hasMore = answers.every(({ headers }) => nextIn(headers));
      at += count;
    }
    return { all, hasMore };
  };
  return {
    ...like,
    async whoami() {
      const { value, headers } = await api.get('/user', user);
      return { login: value.login, ...rightsOf(headers['x-oauth-scopes']) };
    },
    async repositories(query, number): Promise<RepositoryPage> {
      if (query === '') {
        const { value, headers } = await page(number);
        return { repositories: value.filter(mayPush).map(repositoryOf), hasMore: nextIn(headers) };
      }
      if (wholeName.test(query)) {
        const exact = await api.get(of(query), repositorySchema).catch((error: unknown) => {
          if (error instanceof ForgeError && ['not_found', 'forbidden', 'moved'].includes(error.kind)) return undefined;
          throw error;
        });
        if (exact && mayPush(exact.value))
          return { repositories: number === 1 ? [repositoryOf(exact.value)] : [], hasMore: false };
      }
      const { all, hasMore } = await part((number - 1) * searchedPages + 1);
      const wanted = query.toLowerCase();
      const fits = all.filter((one) => mayPush(one) && one.full_name.toLowerCase().includes(wanted));
      return { repositories: fits.map(repositoryOf), hasMore };
    },
  };
}

/** Classic tokens have scopes. GitHub does not report the rights of fine-grained ones. */
function rightsOf(header: string | string[] | undefined): Pick<Identity, 'may' | 'lacks'> {
  if (header === undefined) return { may: null, lacks: [] };
  const scopes = String(header)
    .split(',')
    .map((scope) => scope.trim());
  const has = (...those: string[]): boolean => those.some((scope) => scopes.includes(scope));
  const may: Right[] = [
    ...(has('repo', 'public_repo') ? (['read', 'keys'] as const) : []),
    ...(has('repo', 'admin:repo_hook', 'write:repo_hook') ? (['hooks'] as const) : []),
    ...(has('repo', 'public_repo', 'repo:status') ? (['statuses'] as const) : []),
  ];
  return { may, lacks: may.length === 4 ? [] : ['repo'] };
}
