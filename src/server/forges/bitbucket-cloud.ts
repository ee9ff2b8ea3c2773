import { createHash } from 'node:crypto';
import * as Type from 'typebox';
import type { Static } from 'typebox';
import type { BuildState } from '../lifecycle/states.ts';
import type { ForgeApi } from './api.ts';
import {
  encoded,
  hasEvents,
  rights,
  type Forge,
  type ForgeRepository,
  type Identity,
  type Right,
  type StatusForm,
} from './forge.ts';
import { administered, unlessMoved } from './pages.ts';

export const bitbucketCloudApi = 'https://api.bitbucket.org/2.0';

/**
 * An access token is sent without a user. A personal API token belongs to an email address and is configured as
 * `address:token`.
 */
export function bitbucketHeaders(token: string): Record<string, string> {
  const isPersonal = token.includes(':');
  const authorization = isPersonal ? `Basic ${Buffer.from(token).toString('base64')}` : `Bearer ${token}`;
  return { accept: 'application/json', authorization };
}

export const bitbucketStates: Record<BuildState, string> = {
  enqueued: 'INPROGRESS',
  waiting_for_approval: 'INPROGRESS',
  running: 'INPROGRESS',
  passed: 'SUCCESSFUL',
  failed: 'FAILED',
  timed_out: 'FAILED',
  errored: 'FAILED',
  cancelled: 'STOPPED',
  skipped: 'STOPPED',
};

const longestKey = 40;

/** Bitbucket identifies a status by its key, whose length is limited. */
function keyOf(context: string): string {
  return context.length <= longestKey
    ? context
    : createHash('sha256').update(context).digest('hex').slice(0, longestKey);
}

const of = (repository: string): string => `/repositories/${encoded(repository)}`;

export const bitbucketCloudStatus: StatusForm = {
  path: (repository, sha) => `${of(repository)}/commit/${sha}/statuses/build`,
  states: bitbucketStates,
  body: ({ state, context, description, address }) => ({
    key: keyOf(context),
    state,
    name: context,
    url: address,
    description,
  }),
};

const hookEvents = ['repo:push', 'pullrequest:created', 'pullrequest:updated'];
const commentEvent = 'pullrequest:comment_created';

const pageOf = <Of extends Type.TSchema>(values: Of) =>
  Type.Object({ values: Type.Array(values), next: Type.Optional(Type.String()) });

const repositorySchema = Type.Object({
  uuid: Type.Optional(Type.String({ pattern: '^\\{[\\w-]{1,60}\\}$' })),
  full_name: Type.String(),
  is_private: Type.Boolean(),
  updated_on: Type.Optional(Type.String()),
  mainbranch: Type.Optional(Type.Union([Type.Object({ name: Type.String() }), Type.Null()])),
  links: Type.Object({ clone: Type.Array(Type.Object({ name: Type.String(), href: Type.String() })) }),
});

function repositoryOf(told: Static<typeof repositorySchema>, mayAdminister: boolean): ForgeRepository {
  const address = (name: string): string => told.links.clone.find((one) => one.name === name)?.href ?? '';
  return {
    id: told.uuid ?? '',
    full_name: told.full_name,
    ssh_url: address('ssh'),
    // The reported address contains the caller's user name.
    https_url: address('https').replace(/^https:\/\/[^@/]*@/, 'https://'),
    default_branch: told.mainbranch?.name ?? '',
    private: told.is_private,
    archived: false,
    may_administer: mayAdminister,
  };
}

const namesOf = (list: { values: { full_name: string }[] }): string[] => list.values.map((told) => told.full_name);

const name = Type.Optional(Type.String());
const comment = Type.Object({
  id: Type.Integer(),
  content: Type.Object({ raw: Type.String() }),
  created_on: Type.String(),
  user: Type.Optional(Type.Union([Type.Object({ username: name, nickname: name }), Type.Null()])),
});
const pullOf = (repository: string, pull: string): string => `${of(repository)}/pullrequests/${pull}`;

const mostWorkspaces = 10;
const quoted = (text: string): string => `"${text.replaceAll(/["\\]/g, '\\$&')}"`;

export function bitbucketCloud(api: ForgeApi): Forge {
  const fetched = (path: string) => api.get(path, repositorySchema);
  const inWorkspace = async (workspace: string, role: string, query: string, page: number) => {
    const asked = new URLSearchParams({ role, sort: '-updated_on', ...(query !== '' && { q: query }) });
    const path = `/repositories/${encodeURIComponent(workspace)}?${asked.toString()}&pagelen=50&page=${page}`;
    return (await api.get(path, pageOf(repositorySchema))).value;
  };
  const withRights = async ({ value }: { value: Static<typeof repositorySchema> }): Promise<ForgeRepository> => {
    const { full_name: name } = value;
    const [workspace = ''] = name.split('/');
    const admins = await inWorkspace(workspace, 'admin', `full_name = ${quoted(name)}`, 1);
    return repositoryOf(
      value,
      admins.values.some(({ full_name: one }) => one === name),
    );
  };
  return {
    async whoami() {
      const me = Type.Object({ username: Type.Optional(Type.String()), nickname: Type.Optional(Type.String()) });
      const { value, headers } = await api.get('/user', me);
      return { login: value.username ?? value.nickname ?? '', ...rightsOf(headers['x-oauth-scopes']) };
    },
    async repositories(query, page) {
      const workspace = Type.Object({ slug: Type.String() });
      const mine = pageOf(Type.Object({ workspace: Type.Optional(workspace), slug: Type.Optional(Type.String()) }));
      const { value } = await api.get('/user/workspaces?pagelen=100', mine);
      const found: (Static<typeof repositorySchema> & { isAdmin: boolean })[] = [];
      let hasMore = false;
      const filter = query === '' ? '' : `full_name ~ ${quoted(query)}`;
      for (const one of value.values.slice(0, mostWorkspaces)) {
        const slug = one.workspace?.slug ?? one.slug ?? '';
        const writes = await inWorkspace(slug, 'contributor', filter, page);
        const admins = await administered(namesOf(writes), page, async (at) =>
          namesOf(await inWorkspace(slug, 'admin', filter, at)),
        );
        found.push(...writes.values.map((told) => ({ ...told, isAdmin: admins.has(told.full_name) })));
        hasMore ||= writes.next !== undefined;
      }
      const newest = found.toSorted((a, b) => (b.updated_on ?? '').localeCompare(a.updated_on ?? ''));
      return { repositories: newest.map((told) => repositoryOf(told, told.isAdmin)), hasMore };
    },
    repository: async (name) => withRights(await unlessMoved(fetched, of(name), (found) => found.value.full_name)),
    // If the repository is given by ID, Bitbucket takes empty braces for any workspace.
    repositoryWithId: async (uuid) => withRights(await fetched(of(`{}/${uuid}`))),
    async keys(repository) {
      const key = Type.Object({ id: Type.Integer(), key: Type.String() });
      const { value } = await api.get(`${of(repository)}/deploy-keys?pagelen=100`, pageOf(key));
      return value.values.map((one) => ({ id: String(one.id), key: one.key }));
    },
    addKey: (repository, label, key) => api.post(`${of(repository)}/deploy-keys`, { label, key }),
    removeKey: (repository, id) => api.delete(`${of(repository)}/deploy-keys/${encodeURIComponent(id)}`),
    async hooks(repository) {
      const events = Type.Optional(Type.Array(Type.String()));
      const hook = Type.Object({ uuid: Type.String(), url: Type.String(), active: Type.Boolean(), events });
      const { value } = await api.get(`${of(repository)}/hooks?pagelen=100`, pageOf(hook));
      return value.values.map(({ uuid, url, active, events: on }) => ({
        id: uuid,
        url,
        active: active && hasEvents(on, hookEvents),
        hasComments: hasEvents(on, [commentEvent]),
      }));
    },
    addHook: (repository, { url, secret, comments }) =>
      api.post(`${of(repository)}/hooks`, {
        description: 'Headrace',
        url,
        secret,
        active: true,
        events: [...hookEvents, ...(comments ? [commentEvent] : [])],
      }),
    removeHook: (repository, id) => api.delete(`${of(repository)}/hooks/${encodeURIComponent(id)}`),
    async standing(repository, account) {
      const [workspace = '', slug = ''] = repository.split('/').map(encodeURIComponent);
      const asked = new URLSearchParams({ q: `user.uuid = ${quoted(account.id)}` });
      const path = `/workspaces/${workspace}/permissions/repositories/${slug}?${asked.toString()}`;
      const granted = Type.Object({ permission: Type.String(), user: Type.Object({ uuid: Type.String() }) });
      const { values } = (await api.get(path, pageOf(granted))).value;
      const own = values.find(({ user }) => user.uuid === account.id);
      if (!own) return 'stranger';
      return ['admin', 'write'].includes(own.permission) ? 'pushes' : 'known';
    },
    async head(repository, pull) {
      const commit = Type.Object({ commit: Type.Object({ hash: Type.String() }) });
      return (await api.get(pullOf(repository, pull), Type.Object({ source: commit }))).value.source.commit.hash;
    },
    async comments(repository, pull, since) {
      const path = `${pullOf(repository, pull)}/comments?sort=-created_on&pagelen=100`;
      return (await api.get(path, pageOf(comment))).value.values
        .filter(({ created_on: at }) => Date.parse(at) >= since.getTime())
        .map(({ id, content, user }) => ({
          id: String(id),
          text: content.raw,
          authors: [user?.username, user?.nickname].filter((name) => name !== undefined),
        }));
    },
    async addComment(repository, pull, raw) {
      const path = `${pullOf(repository, pull)}/comments`;
      return String((await api.send('POST', path, { content: { raw } }, Type.Object({ id: Type.Integer() }))).id);
    },
    async changeComment(repository, pull, id, raw) {
      const path = `${pullOf(repository, pull)}/comments/${encodeURIComponent(id)}`;
      await api.send('PUT', path, { content: { raw } }, Type.Object({}));
    },
  };
}

const scopesOf: Record<Right, string[]> = {
  read: ['repository'],
  keys: ['repository:admin'],
  hooks: ['webhook'],
  statuses: ['repository'],
};

const personalScopesOf: Record<Right, string[]> = {
  read: ['read:repository:bitbucket'],
  keys: ['admin:repository:bitbucket'],
  hooks: ['read:webhook:bitbucket', 'write:webhook:bitbucket', 'delete:webhook:bitbucket'],
  statuses: ['read:repository:bitbucket'],
};

function rightsOf(header: string | string[] | undefined): Pick<Identity, 'may' | 'lacks'> {
  if (header === undefined) return { may: null, lacks: [] };
  const scopes = String(header).split(/[,\s]+/);
  if (scopes.includes('repository:write')) scopes.push('repository'); // the only scope that includes another
  const needed = scopes.some((scope) => scope.endsWith(':bitbucket')) ? personalScopesOf : scopesOf;
  const has = (scope: string): boolean => scopes.includes(scope);
  return {
    may: rights.filter((right) => needed[right].every(has)),
    lacks: [...new Set(rights.flatMap((right) => needed[right]))].filter((scope) => !has(scope)),
  };
}
