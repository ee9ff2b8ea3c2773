import { accountRoute } from '../api/route.ts';
import type { ForgeRow } from '../db/schema.ts';
import { ForgeError, type Right } from '../forges/forge.ts';
import { forgeProviders } from '../../shared/domain/forge-providers.ts';
import { noteSeen, seenAt, stateAfter } from '../forges/seen.ts';
import { WithHeaders } from '../http/route.ts';
import { timestamp } from '../../shared/lib/timestamps.ts';
import { changeForge, forgetRetired, forgesOf, insertForge, mendLinks, retireForge } from '../lifecycle/forges.ts';
import { required, valuesIn } from '../../shared/records/fields.ts';
import {
  forgeFields,
  forgeRecord,
  forgeRepositoryRecord,
  forgeToken,
  repositoryQuery,
} from '../../shared/records/forge.ts';
import { listOf } from '../../shared/records/schema.ts';
import { destroyed, destroyedAnswer, orNotFound, withIdString, writeContextOf, type InAccount } from './common.ts';
import { forgeRefusal, opened, refusalAt } from './open-forge.ts';
import { projectsOfForge, unlink, untilTried } from './forge-connections.ts';
import { projectsAt } from './forge-projects.ts';

/** Forges are called before a transaction begins, because they may take seconds. */

function view(forge: ForgeRow) {
  const { login, state, state_reason, checked_at } = forge;
  return {
    ...withIdString('id', forge.id),
    ...valuesIn(forgeFields, forge),
    login,
    may: JSON.parse(forge.may) as Right[] | null,
    checked_at: timestamp(checked_at),
    state,
    state_reason,
  };
}

type Shown = ReturnType<typeof view>;

const token = required(forgeToken);

export async function loadForge({ db, caller, params }: InAccount<'forge_id'>): Promise<{ forge: ForgeRow }> {
  const own = forgesOf(db, caller.id).where('id', '=', params.forge_id);
  return { forge: orNotFound(await own.executeTakeFirst()) };
}

const one = '/forges/:forge_id';
const subject = ({ forge: { id, url: name } }: { forge: ForgeRow }) => ({ id, name });

export const routes = [
  accountRoute({
    method: 'GET',
    path: '/forges',
    access: 'users',
    scope: 'projects',
    summary: 'List the forges that you have connected',
    answer: listOf(forgeRecord),
    handle: async ({ db, caller }) => (await forgesOf(db, caller.id).orderBy('id').execute()).map(view),
  }),
  accountRoute({
    method: 'POST',
    path: '/forges',
    access: 'users',
    scope: 'projects',
    summary: 'Connect a forge: it is asked whose token that is and what it may; the token is never shown',
    body: { ...forgeFields, token },
    creates: 'forges',
    answer: forgeRecord,
    audit: {
      action: 'forge.created',
      details: ({ input }) => ({ provider: input.provider, url: input.url || forgeProviders[input.provider].url }),
    },
    async ask({ openForge, input }) {
      const url = input.url || forgeProviders[input.provider].url;
      try {
        return { seen: await seenAt(openForge(input.provider, { url, token: input.token })), url };
      } catch (error) {
        throw forgeRefusal(error, 'url', { provider: input.provider, url });
      }
    },
    async handle({ db: trx, ids, vault, caller, input, seen, url }) {
      if (!seen || url === undefined) throw new Error('a forge is asked before it is connected');
      const settings = { owner_id: caller.id, provider: input.provider, url };
      return view(await insertForge({ trx, ids, vault }, settings, input.token, seen));
    },
  }),
  accountRoute({
    method: 'GET',
    path: one,
    access: 'users',
    scope: 'projects',
    summary: 'Fetch a forge',
    answer: forgeRecord,
    load: loadForge,
    handle: async ({ forge }) => view(forge),
  }),
  accountRoute({
    method: 'PUT',
    path: one,
    access: 'users',
    scope: 'projects',
    summary: 'Replace the token for a forge; what its projects lack there is mended with it',
    body: { token },
    answer: forgeRecord,
    load: loadForge,
    audit: { action: 'forge.updated', subject },
    async ask({ openForge, forge, input }) {
      if (input.token === undefined) return {};
      try {
        return { seen: await seenAt(openForge(forge.provider, { url: forge.url, token: input.token })) };
      } catch (error) {
        throw forgeRefusal(error, 'token', forge);
      }
    },
    async handle({ db: trx, database: db, vault, forge, input, seen }) {
      if (!seen) return view(forge);
      const changed = await changeForge({ trx, vault }, forge, seen, input.token);
      await mendLinks({ db, trx }, forge.id);
      return view(changed);
    },
    async follow(call, shown: Shown) {
      await untilTried(call, call.params.forge_id);
      return shown;
    },
  }),
  accountRoute({
    method: 'POST',
    path: `${one}/check`,
    access: 'users',
    scope: 'projects',
    summary: 'Ask a forge again whose token it has and what that may',
    answer: forgeRecord,
    load: loadForge,
    audit: { action: 'forge.checked', subject },
    async ask(call) {
      const { forge } = call;
      try {
        return { seen: await seenAt(opened(call, forge)) };
      } catch (error) {
        const forbidden = error instanceof ForgeError && error.kind === 'forbidden';
        const seen = stateAfter(forge, forbidden ? new ForgeError('refused', error.message) : error);
        if (seen) return { seen };
        throw forgeRefusal(error, 'url', forge);
      }
    },
    async handle(call) {
      return view(await noteSeen({ ...writeContextOf(call), vault: call.vault }, call.forge, call.seen ?? {}));
    },
  }),
  accountRoute({
    method: 'DELETE',
    path: one,
    access: 'users',
    scope: 'projects',
    summary:
      'Disconnect a forge; keys, hooks and status targets of its projects are taken away there, and the projects stay',
    answer: destroyedAnswer,
    load: loadForge,
    audit: { action: 'forge.deleted', subject },
    async handle(call) {
      const { db, vault, forge } = call;
      const context = { ...writeContextOf(call), vault };
      await unlink(context, await projectsOfForge(db, forge.id), () => retireForge(db, forge.id));
      await forgetRetired(db, forge.id);
      return destroyed;
    },
    async follow(call, shown: typeof destroyed) {
      await untilTried(call, call.params.forge_id);
      return shown;
    },
  }),
  accountRoute({
    method: 'GET',
    path: `${one}/repositories`,
    access: 'users',
    scope: 'projects',
    summary:
      'List the repositories of a forge that you may push to, newest activity first, with your project on each; the ' +
      'Link header has the next page',
    query: repositoryQuery,
    answer: listOf(forgeRepositoryRecord),
    load: loadForge,
    async handle(call) {
      const { forge, query, origin, caller, db } = call;
      const listed = await opened(call, forge)
        .repositories(query.query, query.page)
        .catch(async (error: unknown) => {
          throw await refusalAt(call, forge, error);
        });
      const projects = await projectsAt(db, caller.id);
      const rows = listed.repositories.map(({ id: _id, ...one }) => ({ ...one, ...projects(one) }));
      const address = (page: number): string => {
        const asked = new URLSearchParams({ ...(query.query !== '' && { query: query.query }), page: String(page) });
        return `${origin}/forges/${forge.id}/repositories?${asked.toString()}`;
      };
      const links = [
        ...(listed.hasMore ? [`<${address(query.page + 1)}>; rel="next"`] : []),
        ...(query.page > 1 ? [`<${address(query.page - 1)}>; rel="prev"`] : []),
      ];
      return new WithHeaders(links.length > 0 ? { link: links.join(', ') } : {}, rows);
    },
  }),
];
