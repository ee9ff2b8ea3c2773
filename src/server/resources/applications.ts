import { accountRoute } from '../api/route.ts';
import { renewApiKey } from '../auth/users.ts';
import { ApiError } from '../../shared/errors.ts';
import { timestamp, timestampOrNull } from '../../shared/lib/timestamps.ts';
import { allowedBy, revoke } from '../oauth/allowed.ts';
import {
  clientsOf,
  deleteClient,
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
import { withIdString } from './common.ts';
import { accountRecords, byList } from './record-routes.ts';

/** Tokens cannot call these routes: with a new key or application they could outlive revocation or gain rights. */

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

const applications = accountRecords({
  ...common,
  path: '/applications',
  name: 'application',
  fields,
  answer: applicationRecord,
  rows: ({ db, caller }) => byList(() => clientsOf(db, caller.id)),
  view,
  subject: (client) => ({ ...client, redirect_uris: JSON.stringify(client.redirectUris) }),
});

const authorizations = accountRecords({
  ...common,
  path: '/authorizations',
  name: 'authorization',
  fields: {},
  answer: authorizationRecord,
  rows: ({ db, caller }) => byList(() => allowedBy(db, caller.id)),
  view: ({ id, name, owner, scopes, since, lastUsedAt }) => ({
    ...withIdString('id', id),
    name,
    owner,
    scopes,
    created_at: timestamp(since),
    last_used_at: timestampOrNull(lastUsedAt),
  }),
});

export const routes = [
  accountRoute({
    ...common,
    method: 'POST',
    path: '/api_key',
    summary: 'Create a new API key for your account; only this response has it, and the old one stops working at once',
    showsSecrets: true,
    answer: apiKeyRecord,
    audit: { action: 'user.api_key_renewed' },
    async handle({ db, caller: { id, email } }) {
      return { ...withIdString('id', id), email, api_key: await renewApiKey(db, email) };
    },
  }),
  applications.list('List the applications that you registered'),
  applications.create(
    'Register an application; only this response has its secret. A public one has none, and uses PKCE',
    {
      body: { ...fields, public: flag() },
      creates: 'oauth_clients',
      showsSecrets: true,
      answer: secretApplicationRecord,
      details: ({ input }) => ({ public: input.public, redirect_uris: input.redirect_uris }),
      async handle({ db, ids, caller, input: { name, public: isPublic, redirect_uris: addresses } }) {
        const form = { ownerId: caller.id, name, redirectUris: addresses, isPublic };
        const { client, secret } = await insertClient(db, ids, form);
        return { ...view(client), ...(secret !== undefined && { client_secret: secret }) };
      },
    },
  ),
  applications.show('Fetch an application that you registered'),
  applications.change('Change the name and the redirect addresses of an application', {
    async handle({ db, application, input: { name, redirect_uris: addresses } }) {
      const sent = { ...(name !== undefined && { name }), ...(addresses && { redirectUris: addresses }) };
      return view(await updateClient(db, application, sent));
    },
  }),
  accountRoute({
    ...common,
    method: 'POST',
    path: `${applications.one}/new_secret`,
    summary: 'Replace the secret of an application; its tokens stay valid. A public one has no secret',
    showsSecrets: true,
    answer: secretApplicationRecord,
    load: applications.load,
    audit: { action: 'application.secret_renewed', subject: applications.subject },
    async handle({ db, application }) {
      if (application.isPublic) throw new ApiError('not_found');
      return { ...view(application), client_secret: await renewSecret(db, application) };
    },
  }),
  applications.remove('Delete an application with all its tokens and codes', {
    handle: ({ db, application }) => deleteClient(db, application),
  }),
  authorizations.list('List the applications that you allowed to act for you'),
  authorizations.remove('Revoke an application’s access: its tokens and codes stop working at once', {
    action: 'application.revoked',
    details: ({ authorization }) => ({ tokens_revoked: authorization.tokens }),
    handle: ({ db, caller, authorization }) => revoke(db, caller.id, authorization.id),
  }),
];
