import { randomUUID } from 'node:crypto';
import * as Type from 'typebox';
import type { ForgeApi } from './api.ts';
import { ForgeError, type Forge } from './forge.ts';
import { likeGithub, mayPush, repositoryOf, repositorySchema } from './github.ts';
import { nextIn } from './pages.ts';

/** Gitea and Forgejo. Below a repository their API is GitHub's. */

export function giteaHeaders(token: string): Record<string, string> {
  return { accept: 'application/json', authorization: `token ${token}` };
}

const user = Type.Object({ id: Type.Integer(), login: Type.String() });
const found = Type.Object({
  data: Type.Array(Type.Intersect([repositorySchema, Type.Object({ updated_at: Type.Optional(Type.String()) })])),
});

export function gitea(api: ForgeApi): Forge {
  const me = async () => (await api.get('/user', user)).value;
  return {
    ...likeGithub(api, 'gitea'),
    async whoami() {
      const { login } = await me();
      return { login, may: null, lacks: (await mayWrite(api, login)) ? [] : ['write:repository'] };
    },
    async repositories(query, page) {
      const { id } = await me();
      const search = (q: string) => {
        const asked = new URLSearchParams({ uid: String(id), q, sort: 'updated', order: 'desc' });
        return api.get(`/repos/search?${asked.toString()}&limit=50&page=${page}`, found);
      };
      // Its search matches repository names. With a trailing slash, it matches the owner's name.
      const byOwner = query !== '' && !query.includes('/') ? [search(`${query}/`)] : [];
      const answers = await Promise.all([search(query), ...byOwner]);
      const told = new Map(answers.flatMap(({ value }) => value.data).map((one) => [one.full_name, one]));
      const newest = [...told.values()].toSorted((a, b) => (b.updated_at ?? '').localeCompare(a.updated_at ?? ''));
      return {
        repositories: newest.filter(mayPush).map(repositoryOf),
        hasMore: answers.some(({ headers }) => nextIn(headers)),
      };
    },
  };
}

/** Gitea does not report a token's rights, but checks them first. So a call for a missing repository shows them. */
async function mayWrite(api: ForgeApi, login: string): Promise<boolean> {
  const nowhere = `/repos/${encodeURIComponent(login)}/headrace-${randomUUID()}/hooks/0`;
  const refused = await api.delete(nowhere).catch((error: unknown) => error);
  return !(refused instanceof ForgeError && refused.kind === 'forbidden');
}
