import * as Type from 'typebox';
import type { Static } from 'typebox';
import type { ForgeApi } from './api.ts';
import { ForgeError, type Forge, type ForgeRepository, type Identity, type StatusForm } from './forge.ts';
import { administered, nextIn, pagesOf, unlessMoved } from './pages.ts';

export function gitlabHeaders(token: string): Record<string, string> {
  return { accept: 'application/json', 'private-token': token };
}

const of = (repository: string): string => `/projects/${encodeURIComponent(repository)}`;

export const gitlabStatus: StatusForm = {
  path: (repository, sha) => `${of(repository)}/statuses/${sha}`,
  states: {
    enqueued: 'pending',
    waiting_for_approval: 'pending',
    running: 'running',
    passed: 'success',
    failed: 'failed',
    timed_out: 'failed',
    errored: 'failed',
    cancelled: 'canceled',
    skipped: 'canceled',
  },
  body: ({ state, context, description, address }) => ({ state, name: context, target_url: address, description }),
};

const access = Type.Optional(Type.Union([Type.Object({ access_level: Type.Integer() }), Type.Null()]));
const text = Type.Optional(Type.Union([Type.String(), Type.Null()]));
const project = Type.Object({
  id: Type.Optional(Type.Integer()),
  path_with_namespace: Type.String(),
  ssh_url_to_repo: text,
  http_url_to_repo: text,
  default_branch: text,
  visibility: Type.Optional(Type.String()),
  archived: Type.Optional(Type.Boolean()),
  permissions: Type.Optional(Type.Object({ project_access: access, group_access: access })),
});

/** GitLab's role numbers: a maintainer may add keys and hooks, a developer may push. */
const maintainer = 40;
const developer = 30;

type Told = Static<typeof project>;

/** This response has only the roles in the project and in its own group. */
function mayMaintain({ permissions }: Told): boolean {
  const { project_access: own, group_access: ofGroup } = permissions ?? {};
  return Math.max(own?.access_level ?? 0, ofGroup?.access_level ?? 0) >= maintainer;
}

function repositoryOf(told: Told, mayAdminister: boolean): ForgeRepository {
  return {
    id: String(told.id ?? ''),
    full_name: told.path_with_namespace,
    ssh_url: told.ssh_url_to_repo ?? '',
    https_url: told.http_url_to_repo ?? '',
    default_branch: told.default_branch ?? '',
    private: told.visibility !== 'public',
    archived: told.archived ?? false,
    may_administer: mayAdminister,
  };
}

const keySchema = Type.Object({ id: Type.Integer(), key: Type.String() });
const isOn = Type.Optional(Type.Boolean());
const hookSchema = Type.Object({
  id: Type.Integer(),
  url: Type.String(),
  alert_status: Type.Optional(Type.String()),
  push_events: isOn,
  tag_push_events: isOn,
  merge_requests_events: isOn,
  note_events: isOn,
});

const note = Type.Object({
  id: Type.Integer(),
  body: Type.String(),
  created_at: Type.String(),
  author: Type.Object({ username: Type.String() }),
});
const notesOf = (repository: string, pull: string): string => `${of(repository)}/merge_requests/${pull}/notes`;

export function gitlab(api: ForgeApi): Forge {
  const fetched = (path: string) => api.get(path, project);
  const listed = (role: number, query: string, page: number) => {
    const asked = new URLSearchParams({
      membership: 'true',
      min_access_level: String(role),
      order_by: 'last_activity_at',
      sort: 'desc',
      ...(query !== '' && { search: query, search_namespaces: 'true' }),
    });
    return api.get(`/projects?${asked.toString()}&per_page=50&page=${page}`, Type.Array(project));
  };
  /** Includes a role from a parent group or an invited group. */
  const mayMaintainAtAll = async (told: Told): Promise<boolean> => {
    if (mayMaintain(told)) return true;
    const me = await api.get('/user', Type.Object({ id: Type.Integer() }));
    const path = `${of(told.path_with_namespace)}/members/all/${me.value.id}`;
    const member = await api.get(path, Type.Object({ access_level: Type.Integer() })).catch((error: unknown) => {
      if (error instanceof ForgeError && ['not_found', 'forbidden'].includes(error.kind)) return undefined;
      throw error;
    });
    return (member?.value.access_level ?? 0) >= maintainer;
  };
  return {
    async whoami() {
      const { value } = await api.get('/user', Type.Object({ username: Type.String() }));
      return { login: value.username, ...(await rightsOf(api)) };
    },
    async repositories(query, page) {
      const { value, headers } = await listed(developer, query, page);
      const others = value.filter((told) => !mayMaintain(told)).map(({ path_with_namespace: name }) => name);
      const maintained = await administered(others, page, async (at) =>
        (await listed(maintainer, query, at)).value.map(({ path_with_namespace: name }) => name),
      );
      const may = (told: Told): boolean => mayMaintain(told) || maintained.has(told.path_with_namespace);
      return { repositories: value.map((told) => repositoryOf(told, may(told))), hasMore: nextIn(headers) };
    },
    async repository(name) {
      const { value } = await unlessMoved(fetched, of(name), (found) => found.value.path_with_namespace);
      return repositoryOf(value, await mayMaintainAtAll(value));
    },
    async repositoryWithId(id) {
      const { value } = await fetched(of(id));
      return repositoryOf(value, await mayMaintainAtAll(value));
    },
    async keys(repository) {
      const keys = await pagesOf((page) =>
        api.get(`${of(repository)}/deploy_keys?per_page=100&page=${page}`, Type.Array(keySchema)),
      );
      return keys.map(({ id, key }) => ({ id: String(id), key }));
    },
    addKey: (repository, title, key) => api.post(`${of(repository)}/deploy_keys`, { title, key, can_push: false }),
    removeKey: (repository, id) => api.delete(`${of(repository)}/deploy_keys/${encodeURIComponent(id)}`),
    async hooks(repository) {
      const hooks = await pagesOf((page) =>
        api.get(`${of(repository)}/hooks?per_page=100&page=${page}`, Type.Array(hookSchema)),
      );
      // GitLab disables a hook that failed too often.
      return hooks.map(({ id, url, alert_status: alert, ...on }) => ({
        id: String(id),
        url,
        active: alert !== 'disabled' && ![on.push_events, on.tag_push_events, on.merge_requests_events].includes(false),
        hasComments: on.note_events !== false,
      }));
    },
    addHook: (repository, { url, secret, comments }) =>
      api.post(`${of(repository)}/hooks`, {
        url,
        token: secret,
        push_events: true,
        tag_push_events: true,
        merge_requests_events: true,
        ...(comments && { note_events: true }),
        enable_ssl_verification: true,
      }),
    removeHook: (repository, id) => api.delete(`${of(repository)}/hooks/${encodeURIComponent(id)}`),
    async standing(repository, account) {
      const path = `${of(repository)}/members/all/${encodeURIComponent(account.id)}`;
      const member = Type.Object({ id: Type.Integer(), access_level: Type.Integer(), state: Type.String() });
      const found = (await api.orMissing(api.get(path, member)))?.value;
      if (found === undefined || String(found.id) !== account.id || found.state !== 'active') return 'stranger';
      return found.access_level >= developer ? 'pushes' : 'known';
    },
    async head(repository, pull) {
      const path = `${of(repository)}/merge_requests/${pull}`;
      return (await api.get(path, Type.Object({ sha: Type.String() }))).value.sha;
    },
    async comments(repository, pull, since) {
      const newestFirst = 'sort=desc&order_by=created_at&per_page=100';
      const { value } = await api.get(`${notesOf(repository, pull)}?${newestFirst}`, Type.Array(note));
      return value
        .filter(({ created_at: at }) => Date.parse(at) >= since.getTime())
        .map(({ id, body, author }) => ({ id: String(id), text: body, authors: [author.username] }));
    },
    addComment: async (repository, pull, body) =>
      String((await api.send('POST', notesOf(repository, pull), { body }, Type.Object({ id: Type.Integer() }))).id),
    async changeComment(repository, pull, id, body) {
      await api.send('PUT', `${notesOf(repository, pull)}/${encodeURIComponent(id)}`, { body }, Type.Object({}));
    },
    async react(repository, pull, id) {
      const path = `${notesOf(repository, pull)}/${encodeURIComponent(id)}/award_emoji`;
      await api.send('POST', path, { name: 'thumbsup' }, Type.Object({})).catch((error: unknown) => {
        if (!(error instanceof ForgeError) || !/already been taken/i.test(error.message)) throw error;
      });
    },
  };
}

/** Only access tokens can be queried for their own rights. OAuth tokens cannot. */
async function rightsOf(api: ForgeApi): Promise<Pick<Identity, 'may' | 'lacks'>> {
  try {
    const own = await api.get('/personal_access_tokens/self', Type.Object({ scopes: Type.Array(Type.String()) }));
    const { scopes } = own.value;
    if (scopes.includes('api')) return { may: ['read', 'keys', 'hooks', 'statuses'], lacks: [] };
    return { may: scopes.includes('read_api') ? ['read'] : [], lacks: ['api'] };
  } catch (error) {
    if (error instanceof ForgeError && error.kind !== 'unavailable') return { may: null, lacks: [] };
    throw error;
  }
}
