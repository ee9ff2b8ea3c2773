import { ApiError } from '../errors.ts';
import { isForeignKeyViolation, type Database } from '../db/open.ts';
import { isUnavailable } from '../db/unavailable.ts';
import { form } from '../http/bare-bodies.ts';
import type { BareAnswer, BareRoute, BareRoutes, Head } from '../http/bare-routes.ts';
import { clientChallenge } from '../http/challenges.ts';
import { addressOf } from '../http/client-address.ts';
import type { RawGroup } from '../http/raw.ts';
import type { IdSource } from '../lib/ids.ts';
import { clientWithSecret, type Client } from './clients.ts';
import { redeem } from './codes.ts';
import { OauthError, parametersOf, refuseRepeated, type Parameters } from './parameters.ts';

export interface TokenServices {
  db: Database;
  ids: IdSource;
  /** Whether a proxy on this machine names the client's address. */
  isBehindProxy: boolean;
  /** Called with internal errors. */
  onTrouble: (error: unknown, requestId: string) => void;
}

const largestForm = 16 * 1024;
const names = ['grant_type', 'code', 'redirect_uri', 'client_id', 'client_secret', 'code_verifier'];

/** RFC 6749 section 3.2: applications exchange a code for a token here. The answers have no envelope. */
export function tokenEndpoint(services: TokenServices): BareRoutes<void> {
  const route: BareRoute<void, RawGroup> = {
    method: 'POST',
    path: '/oauth2/access_token',
    body: form(largestForm),
    async handle({ head, body }) {
      refuseRepeated(body, names);
      const parameters = parametersOf(body);
      const client = await identify(head.headers.authorization, parameters, services.db);
      const address = addressOf(head.raw, services.isBehindProxy);
      const { token, scopes } = await exchange(client, parameters, address, services);
      return answer(200, { access_token: token, token_type: 'bearer', scope: scopes.join(' ') });
    },
  };
  return {
    provenBy: 'client',
    isCounted: true,
    admit: async () => {}, // the application authenticates in the body
    routes: [route],
    refuse: (error, head) => errorAnswer(error, head, services),
  };
}

/** RFC 6749 section 2.3.1: with Basic or in the body, and not both. The query is ignored. */
async function identify(header: string | undefined, parameters: Parameters, { read }: Database): Promise<Client> {
  const basic = header === undefined ? undefined : readBasic(header);
  const [id, secret] = [parameters('client_id'), parameters('client_secret')];
  if (basic && (secret !== undefined || (id !== undefined && id !== basic.id))) {
    throw new OauthError('invalid_request', 'the application identified itself in two ways');
  }
  const claimed = basic ?? { id, secret };
  if (claimed.id === undefined) throw new OauthError('invalid_client', 'client_id is missing');
  const client = await clientWithSecret(read, claimed.id, claimed.secret);
  if (!client) throw new OauthError('invalid_client', 'the application is unknown, or its secret is wrong');
  return client;
}

function readBasic(header: string): { id: string; secret: string | undefined } {
  const [, encoded = ''] = /^basic +(\S+)$/i.exec(header) ?? [];
  const [, id, secret] = /^([^:]+):(.*)$/s.exec(Buffer.from(encoded, 'base64').toString()) ?? [];
  if (id === undefined || secret === undefined)
    throw new OauthError('invalid_client', 'the credentials are not in Basic form');
  return { id: formDecoded(id), secret: secret === '' ? undefined : formDecoded(secret) };
}

/** RFC 6749 section 2.3.1: both parts are form-encoded before they are joined. */
function formDecoded(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    throw new OauthError('invalid_client', 'the credentials cannot be read');
  }
}

async function exchange(client: Client, parameters: Parameters, address: string, { db, ids }: TokenServices) {
  const [grantType, code] = [parameters('grant_type'), parameters('code')];
  if (grantType === undefined) throw new OauthError('invalid_request', 'grant_type is missing');
  if (grantType !== 'authorization_code') {
    throw new OauthError('unsupported_grant_type', 'the only grant type is authorization_code');
  }
  if (code === undefined) throw new OauthError('invalid_request', 'code is missing');
  const [redirectUri, verifier] = [parameters('redirect_uri'), parameters('code_verifier')];
  const redemption = { code, redirectUri, verifier, address };
  const redeemed = await redeem(db, ids, client, redemption).catch((error: unknown) => {
    if (isForeignKeyViolation(error)) return undefined; // the application was deleted at this moment
    throw error;
  });
  if (!redeemed) {
    throw new OauthError('invalid_grant', 'the code is unknown, used, too old, or was issued for another request');
  }
  return redeemed;
}

/** RFC 6749 section 5.1: an answer with a token must not be cached. */
function answer(status: number, content: object, headers: Record<string, string> = {}): BareAnswer {
  return { status, headers: { 'cache-control': 'no-store', pragma: 'no-cache', ...headers }, content };
}

/** RFC 6749 section 5.2. */
function errorAnswer(error: unknown, { id, headers }: Head, { onTrouble }: TokenServices): BareAnswer {
  const known = error instanceof OauthError ? error : unreadableBody(error);
  // A repeated request with the same code succeeds once the database is back.
  if (isUnavailable(error)) return answer(503, { error: 'temporarily_unavailable' });
  if (!known) {
    onTrouble(error, id);
    return answer(500, { error: 'server_error' });
  }
  const status = known.code === 'invalid_client' ? 401 : 400;
  const challenge = status === 401 ? clientChallenge(headers) : undefined;
  const said = { error: known.code, error_description: known.message };
  return answer(status, said, challenge === undefined ? {} : { 'www-authenticate': challenge });
}

function unreadableBody(error: unknown): OauthError | undefined {
  const status = error instanceof Error && 'statusCode' in error ? Number(error.statusCode) : 500;
  const isTheirs = error instanceof ApiError || (status >= 400 && status < 500);
  return isTheirs ? new OauthError('invalid_request', 'the form cannot be read') : undefined;
}
