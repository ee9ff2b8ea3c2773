import * as Type from 'typebox';
import type { Static } from 'typebox';
import type { ForgeApi } from './api.ts';
import { bitbucketCloudStatus, bitbucketStates } from './bitbucket-cloud.ts';
import { ForgeError, hasEvents, type Forge, type ForgeRepository, type StatusForm } from './forge.ts';
import { administered, unlessMoved } from './pages.ts';

const of = (repository: string): string => {
  const [project = '', name = ''] = repository.split('/').map(encodeURIComponent);
  return `projects/${project}/repos/${name}`;
};

export const bitbucketDataCenterStatus: StatusForm = {
  ...bitbucketCloudStatus,
  path: (repository, sha) => `/api/latest/${of(repository)}/commits/${sha}/builds`,
  states: { ...bitbucketStates, cancelled: 'FAILED', skipped: 'FAILED' },
};

const hookEvents = ['repo:refs_changed', 'pr:opened', 'pr:from_ref_updated', 'pr:reopened'];
const commentEvent = 'pr:comment:added';

const pageOf = <Of extends Type.TSchema>(values: Of) =>
  Type.Object({ values: Type.Array(values), isLastPage: Type.Boolean() });

const repositorySchema = Type.Object({
  id: Type.Optional(Type.Integer()),
  slug: Type.String(),
  project: Type.Object({ key: Type.String() }),
  public: Type.Optional(Type.Boolean()),
  archived: Type.Optional(Type.Boolean()),
  links: Type.Object({ clone: Type.Optional(Type.Array(Type.Object({ name: Type.String(), href: Type.String() }))) }),
});
type Told = Static<typeof repositorySchema>;

const nameOf = ({ project, slug }: Told): string => `${project.key}/${slug}`;

function repositoryOf(told: Told, mayAdminister: boolean, defaultBranch = ''): ForgeRepository {
  const address = (name: string): string => told.links.clone?.find((one) => one.name === name)?.href ?? '';
  return {
    id: String(told.id ?? ''),
    full_name: nameOf(told),
    ssh_url: address('ssh'),
    https_url: address('http').replace(/^(https?:\/\/)[^@/]*@/, '$1'),
    default_branch: defaultBranch,
    private: !(told.public ?? false),
    archived: told.archived ?? false,
    may_administer: mayAdminister,
  };
}

const user = Type.Object({ id: Type.Integer(), name: Type.String() });
const version = { id: Type.Integer(), version: Type.Integer() };
const pullOf = (repository: string, pull: string): string => `${of(repository)}/pull-requests/${pull}`;

const atOnce = 50;

export function bitbucketDataCenter(api: ForgeApi): Forge {
  const fetched = (path: string) => api.get(path, repositorySchema);
  const listed = async (permission: string, query: string, page: number) => {
    const start = String((page - 1) * atOnce);
    const asked = new URLSearchParams({ permission, start, limit: String(atOnce), archived: 'ALL' });
    if (query !== '') asked.set('name', query);
    return (await api.get(`/api/latest/repos?${asked.toString()}`, pageOf(repositorySchema))).value;
  };
  return {
    async whoami() {
      const properties = Type.Object({ version: Type.String(), displayName: Type.Optional(Type.String()) });
      const { headers } = await api.get('/api/latest/application-properties', properties);
      // Anyone may read these. The header names the token's user.
      const login = headers['x-ausername'];
      if (typeof login !== 'string') throw new ForgeError('refused', 'Bitbucket does not know this token.');
      return { login: decodeURIComponent(login), may: null, lacks: [] };
    },
    async repositories(query, page) {
      const writes = await listed('REPO_WRITE', query, page);
      const admins = await administered(writes.values.map(nameOf), page, async (at) =>
        (await listed('REPO_ADMIN', query, at)).values.map(nameOf),
      );
      const repositories = writes.values.map((told) => repositoryOf(told, admins.has(nameOf(told))));
      return { repositories, hasMore: !writes.isLastPage };
    },
    async repository(name) {
      const { value } = await unlessMoved(fetched, `/api/latest/${of(name)}`, (found) => nameOf(found.value));
      const branch = await api
        .get(`/api/latest/${of(name)}/default-branch`, Type.Object({ displayId: Type.String() }))
        .catch((error: unknown) => {
          if (error instanceof ForgeError && error.kind === 'not_found') return undefined; // it is empty
          throw error;
        });
      return repositoryOf(
        value,
        await mayRead(api, `/api/latest/${of(name)}/webhooks?limit=1`),
        branch?.value.displayId,
      );
    },
    async keys(repository) {
      const key = Type.Object({ key: Type.Object({ id: Type.Integer(), text: Type.String() }) });
      const { value } = await api.get(`/keys/latest/${of(repository)}/ssh?limit=1000`, pageOf(key));
      return value.values.map((one) => ({ id: String(one.key.id), key: one.key.text }));
    },
    addKey: (repository, label, text) =>
      api.post(`/keys/latest/${of(repository)}/ssh`, { key: { text, label }, permission: 'REPO_READ' }),
    removeKey: (repository, id) => api.delete(`/keys/latest/${of(repository)}/ssh/${encodeURIComponent(id)}`),
    async hooks(repository) {
      const events = Type.Optional(Type.Array(Type.String()));
      const hook = Type.Object({ id: Type.Integer(), url: Type.String(), active: Type.Boolean(), events });
      const { value } = await api.get(`/api/latest/${of(repository)}/webhooks?limit=1000`, pageOf(hook));
      return value.values.map(({ id, url, active, events: on }) => ({
        id: String(id),
        url,
        active: active && hasEvents(on, hookEvents),
        hasComments: hasEvents(on, [commentEvent]),
      }));
    },
    addHook: (repository, { url, secret, comments }) =>
      api.post(`/api/latest/${of(repository)}/webhooks`, {
        name: 'Headrace',
        url,
        active: true,
        configuration: { secret },
        events: [...hookEvents, ...(comments ? [commentEvent] : [])],
      }),
    removeHook: (repository, id) => api.delete(`/api/latest/${of(repository)}/webhooks/${encodeURIComponent(id)}`),
    async standing(repository, account) {
      const [projectKey = '', repositorySlug = ''] = repository.split('/');
      const isAmong = async (permission: string): Promise<boolean> => {
        const asked = new URLSearchParams({
          filter: account.login,
          'permission.1': permission,
          'permission.1.projectKey': projectKey,
          'permission.1.repositorySlug': repositorySlug,
          limit: '1000',
        });
        const users = await api.get(`/api/latest/users?${asked.toString()}`, pageOf(user));
        return users.value.values.some(({ id, name }) => String(id) === account.id && name === account.login);
      };
      if (await isAmong('REPO_WRITE')) return 'pushes';
      return (await isAmong('REPO_READ')) ? 'known' : 'stranger';
    },
    async head(repository, pull) {
      const from = Type.Object({ latestCommit: Type.String() });
      const path = `/api/latest/${pullOf(repository, pull)}`;
      return (await api.get(path, Type.Object({ fromRef: from }))).value.fromRef.latestCommit;
    },
    async comments(repository, pull, since) {
      const comment = Type.Object({ ...version, text: Type.String(), author: user, createdDate: Type.Integer() });
      const activity = Type.Object({ comment: Type.Optional(comment) });
      const path = `/api/latest/${pullOf(repository, pull)}/activities?limit=100`;
      return (await api.get(path, pageOf(activity))).value.values
        .flatMap((one) => one.comment ?? [])
        .filter(({ createdDate: at }) => at >= since.getTime())
        .map(({ id, text, author }) => ({ id: String(id), text, authors: [author.name] }));
    },
    async addComment(repository, pull, text) {
      const path = `/api/latest/${pullOf(repository, pull)}/comments`;
      return String((await api.send('POST', path, { text }, Type.Object({ id: Type.Integer() }))).id);
    },
    async changeComment(repository, pull, id, text) {
      const path = `/api/latest/${pullOf(repository, pull)}/comments/${encodeURIComponent(id)}`;
      // A change needs the version that it changes.
      const { version: number } = (await api.get(path, Type.Object(version))).value;
      await api.send('PUT', path, { text, version: number }, Type.Object({}));
    },
    async react(repository, pull, id) {
      const path = `/comment-likes/latest/${pullOf(repository, pull)}/comments/${encodeURIComponent(id)}/reactions/thumbsup`;
      await api.send('PUT', path, {}, Type.Object({}));
    },
  };
}

/** Only administrators see hooks. Bitbucket sends other users 401 or 403. */
async function mayRead(api: ForgeApi, path: string): Promise<boolean> {
  try {
    await api.get(path, pageOf(Type.Unknown()));
    return true;
  } catch (error) {
    if (error instanceof ForgeError && ['refused', 'forbidden', 'not_found'].includes(error.kind)) return false;
    throw error;
  }
}
