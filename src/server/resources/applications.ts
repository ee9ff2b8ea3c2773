import { accountRoute } from '../api/route.ts';
import { renewApiKey } from '../auth/users.ts';
import { ApiError } from '../../shared/errors.ts';
import { timestamp, timestampOrNull } from '../../shared/lib/timestamps.ts';
import { allowedBy, revoke } from '../oauth/allowed.ts';
import {
  clientsOf,
  deleteClient,
  findClient,
  insertClient,
  isApplicationName,
  renewSecret,
  updateClient,
  type Client,
} from '../oauth/clients.ts';
import { isRedirectAddress } from '../oauth/redirects.ts';
import {
  apiKeyRecord,
  applicationRecord,
  authorizationRecord,
  secretApplicationRecord,
} from '../../shared/records/application.ts';
import { flag, lines, required, text } from '../../shared/records/fields.ts';
import { listOf } from '../../shared/records/schema.ts';
import { destroyed, destroyedAnswer, orNotFound, withIdString, type InAccount } from './common.ts';

/** No token opens these routes: with a new key or application it could outlive its revocation or gain rights. */

const common = { access: 'both', scope: 'never' } as const;

function view({ id, name, isPublic, redirectUris, createdAt }: Client) {
  return {
    ...withIdString('id', id),
    name,
    public: isPublic,
    redirect_uris: [...redirectUris],
    created_at: timestamp(createdAt),
  };
}

function redirectUris() {
  const field = lines({
    most: 'redirectAddresses',
    longest: 'redirectAddress',
    check: isRedirectAddress,
    isSet: true,
    description: 'Complete addresses without a fragment, exactly as the application sends them',
  });
  return {
    ...required(field),
    parse(raw: unknown): string[] {
      const addresses = field.parse(raw);
      if (addresses.length === 0) throw new ApiError('is_blank');
      return addresses;
    },
  };
}

const name = required(text('applicationName', { check: isApplicationName }));

const fields = {
  name: { ...name, parse: (raw: unknown) => name.parse(raw).trim() },
  redirect_uris: redirectUris(),
};

/** Other accounts' applications and the command line's are hidden from the caller. */
async function loadApplication({ db, caller, params }: InAccount<'application_id'>): Promise<{ application: Client }> {
  const client = await findClient(db, params.application_id);
  return { application: orNotFound(client?.ownerId === caller.id ? client : undefined) };
}

async function loadAuthorization({ db, caller, params }: InAccount<'authorization_id'>) {
  const allowed = await allowedBy(db, caller.id);
  return { authorization: orNotFound(allowed.find(({ id }) => id === params.authorization_id)) };
}

const asSubject = ({ application }: { application: Client }) => application;

export const routes = [
  accountRoute({
    ...common,
    method: 'POST',
    path: '/api_key',
    summary: 'Make a new API key for your account; only this answer has it, and the old one stops working at once',
    showsSecrets: true,
    answer: apiKeyRecord,
    audit: { action: 'user.api_key_renewed' },
    async handle({ db, caller: { id, email } }) {
      return { ...withIdString('id', id), email, api_key: await renewApiKey(db, email) };
    },
  }),
  accountRoute({
    ...common,
    method: 'GET',
    path: '/applications',
    summary: 'List the applications that you registered',
    answer: listOf(applicationRecord),
    handle: async ({ db, caller }) => (await clientsOf(db, caller.id)).map(view),
  }),
  accountRoute({
    ...common,
    method: 'POST',
    path: '/applications',
    summary: 'Register an application; only this answer has its secret. A public one has none, and uses PKCE',
    body: { ...fields, public: flag() },
    creates: 'oauth_clients',
    showsSecrets: true,
    answer: secretApplicationRecord,
    audit: {
      action: 'application.created',
      details: ({ input }) => ({ public: input.public, redirect_uris: input.redirect_uris }),
    },
    async handle({ db, ids, caller, input: { name, public: isPublic, redirect_uris: addresses } }) {
      const form = { ownerId: caller.id, name, redirectUris: addresses, isPublic };
      const { client, secret } = await insertClient(db, ids, form);
      return { ...view(client), ...(secret !== undefined && { client_secret: secret }) };
    },
  }),
  accountRoute({
    ...common,
    method: 'GET',
    path: '/applications/:application_id',
    summary: 'Fetch an application that you registered',
    answer: applicationRecord,
    load: loadApplication,
    handle: async ({ application }) => view(application),
  }),
  accountRoute({
    ...common,
    method: 'PUT',
    path: '/applications/:application_id',
    summary: 'Change the name and the redirect addresses of an application',
    body: fields,
    answer: applicationRecord,
    load: loadApplication,
    audit: {
      action: 'application.updated',
      subject: ({ application }) => ({ ...application, redirect_uris: JSON.stringify(application.redirectUris) }),
    },
    async handle({ db, application, input: { name, redirect_uris: addresses } }) {
      const sent = { ...(name !== undefined && { name }), ...(addresses && { redirectUris: addresses }) };
      return view(await updateClient(db, application, sent));
    },
  }),
  accountRoute({
    ...common,
    method: 'POST',
    path: '/applications/:application_id/new_secret',
    summary: 'Replace the secret of an application; what people allowed it stays. A public one has none',
    showsSecrets: true,
    answer: secretApplicationRecord,
    load: loadApplication,
    audit: { action: 'application.secret_renewed', subject: asSubject },
    async handle({ db, application }) {
      if (application.isPublic) throw new ApiError('not_found');
      return { ...view(application), client_secret: await renewSecret(db, application) };
    },
  }),
  accountRoute({
    ...common,
    method: 'DELETE',
    path: '/applications/:application_id',
    summary: 'Delete an application, with everything that people allowed it',
    answer: destroyedAnswer,
    load: loadApplication,
    audit: { action: 'application.deleted', subject: asSubject },
    async handle({ db, application }) {
      await deleteClient(db, application);
      return destroyed;
    },
  }),
  accountRoute({
    ...common,
    method: 'GET',
    path: '/authorizations',
    summary: 'List the applications that you allowed to act for you',
    answer: listOf(authorizationRecord),
    async handle({ db, caller }) {
      const allowed = await allowedBy(db, caller.id);
      return allowed.map(({ id, name, owner, scopes, since, lastUsedAt }) => ({
        ...withIdString('id', id),
        name,
        owner,
        scopes,
        created_at: timestamp(since),
        last_used_at: timestampOrNull(lastUsedAt),
      }));
    },
  }),
  accountRoute({
    ...common,
    method: 'DELETE',
    path: '/authorizations/:authorization_id',
    summary: 'Take back what you allowed an application: its tokens and codes stop working at once',
    answer: destroyedAnswer,
    load: loadAuthorization,
    audit: {
      action: 'application.revoked',
      subject: ({ authorization }) => authorization,
      details: ({ authorization }) => ({ tokens_revoked: authorization.tokens }),
    },
    async handle({ db, caller, authorization }) {
      await revoke(db, caller.id, authorization.id);
      return destroyed;
    },
  }),
];
