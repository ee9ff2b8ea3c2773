import { accountRoute } from '../api/route.ts';
import type { ForgeRow } from '../db/schema.ts';
import { ForgeError, type Right } from '../forges/forge.ts';
import { forgeProviders } from '../../shared/domain/forge-providers.ts';
import { noteSeen, seenAt, stateAfter, type SeenForge } from '../forges/seen.ts';
import { WithHeaders } from '../http/route.ts';
import { timestamp } from '../../shared/lib/timestamps.ts';
import {
  changeForge,
  connectedForges,
  forgetRetired,
  insertForge,
  mendLinks,
  retireForge,
} from '../lifecycle/forges.ts';
import { required, valuesIn } from '../../shared/records/fields.ts';
import {
  forgeFields,
  forgeRecord,
  forgeRepositoryRecord,
  forgeToken,
  repositoryQuery,
} from '../../shared/records/forge.ts';
import { listOf } from '../../shared/records/schema.ts';
import { withIdString, writeContextOf } from './common.ts';
import { accountRecords, byQuery, loadAccount, ownedBy } from './record-routes.ts';
import { forgeRefusal, opened, refusalAt } from './open-forge.ts';
import { projectsOfForge, unlink, untilTried } from './forge-connections.ts';
import { projectsAt } from './forge-projects.ts';

/** Forges are called before a transaction begins, because a call may take seconds. */

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

const token = required(forgeToken);

const forges = accountRecords({
  path: '/forges',
  name: 'forge',
  access: 'users',
  scope: 'projects',
  fields: { ...forgeFields, token },
  answer: forgeRecord,
  inOrganisation: { reads: 'maintainer', writes: 'owner' },
  inside: loadAccount,
  rows: ({ db, account }) => byQuery(connectedForges(db).where(ownedBy(account))),
  view,
  subject: ({ id, url }) => ({ id, name: url }),
});

async function afterTrying<Shown>(
  call: Parameters<typeof untilTried>[0] & { params: { forge_id: bigint } },
  shown: Shown,
): Promise<Shown> {
  await untilTried(call, call.params.forge_id);
  return shown;
}

export const routes = [
  forges.list('List the forges that you, or an organisation, have connected'),
  forges.create('Connect a forge. Headrace checks the token’s user and rights there; the token is never shown', {
    creates: 'forges',
    details: ({ input }) => ({ provider: input.provider, url: input.url || forgeProviders[input.provider].url }),
    async ask({ openForge, input }) {
      const url = input.url || forgeProviders[input.provider].url;
      try {
        return { seen: await seenAt(openForge(input.provider, { url, token: input.token })), url };
      } catch (error) {
        throw forgeRefusal(error, 'url', { provider: input.provider, url });
      }
    },
    async handle({ db: trx, ids, vault, account, input, seen, url }) {
      if (!seen || url === undefined) throw new Error('a forge is asked before it is connected');
      const settings = { owner_id: account, provider: input.provider, url };
      return view(await insertForge({ trx, ids, vault }, settings, input.token, seen));
    },
  }),
  forges.show('Fetch a forge'),
  forges.change(
    'Replace the token for a forge; missing keys, hooks and statuses of its projects are repaired with it',
    {
      body: { token },
      async ask({ openForge, forge, input }): Promise<{ seen?: SeenForge }> {
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
      follow: afterTrying,
    },
  ),
  accountRoute({
    ...forges.ofOne,
    method: 'POST',
    path: `${forges.one}/check`,
    summary: 'Check the token’s user and rights at the forge again',
    answer: forgeRecord,
    audit: { action: 'forge.checked', subject: forges.subject },
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
  forges.remove(
    'Disconnect a forge; keys, hooks and status targets of its projects are removed there, and the projects stay',
    {
      async handle(call) {
        const { db, vault, forge } = call;
        const context = { ...writeContextOf(call), vault };
        await unlink(context, await projectsOfForge(db, forge.id), () => retireForge(db, forge.id));
        await forgetRetired(db, forge.id);
      },
      follow: afterTrying,
    },
  ),
  accountRoute({
    ...forges.ofOne,
    inOrganisation: 'maintainer',
    method: 'GET',
    path: `${forges.one}/repositories`,
    summary:
      'List the repositories of a forge that you may push to, newest activity first, with your project on each; the ' +
      'Link header has the next page',
    query: repositoryQuery,
    answer: listOf(forgeRepositoryRecord),
    async handle(call) {
      const { account, forge, query, origin, db } = call;
      const listed = await opened(call, forge)
        .repositories(query.query, query.page)
        .catch(async (error: unknown) => {
          throw await refusalAt(call, forge, error);
        });
      const projects = await projectsAt(db, account);
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
