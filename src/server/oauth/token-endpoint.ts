import { ApiError } from '../../shared/errors.ts';
import { isForeignKeyViolation, type Database } from '../db/open.ts';
import { isUnavailable } from '../db/unavailable.ts';
import { form } from '../http/body-readers.ts';
import type { PlainAnswer, PlainRoute, PlainRoutes, Head } from '../http/plain-routes.ts';
import { clientChallenge } from '../http/challenges.ts';
import { addressOf } from '../http/client-address.ts';
import type { RawGroup } from '../../shared/records/raw.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import { identify } from './client-credentials.ts';
import type { Client } from './clients.ts';
import { redeem } from './codes.ts';
import { OauthError, parametersOf, readResource, refuseRepeated, type Parameters } from './parameters.ts';
import { revokeToken } from './revocation.ts';

export interface TokenDeps {
  db: Database;
  ids: IdSource;
  isBehindProxy: boolean;
  /** The public address of this server. */
  issuer: () => string;
  onTrouble: (error: unknown, requestId: string) => void;
}

const largestForm = 16 * 1024;
const names = ['grant_type', 'code', 'redirect_uri', 'client_id', 'client_secret', 'code_verifier', 'resource'];

/** Exchanges codes (RFC 6749 section 3.2) and revokes tokens (RFC 7009). The responses have no envelope. */
export function tokenEndpoint(deps: TokenDeps): PlainRoutes<void> {
  const route: PlainRoute<void, RawGroup> = {
    method: 'POST',
    path: '/oauth2/access_token',
    body: form(largestForm),
    async handle({ head, body }) {
      refuseRepeated(body, names);
      const parameters = parametersOf(body);
      const client = await identify(head.headers.authorization, parameters, deps.db);
      const address = addressOf(head.raw, deps.isBehindProxy);
      const { token, scopes } = await exchange(client, parameters, address, deps);
      return answer(200, { access_token: token, token_type: 'bearer', scope: scopes.join(' ') });
    },
  };
  const revocation: PlainRoute<void, RawGroup> = {
    method: 'POST',
    path: '/oauth2/revoke',
    body: form(largestForm),
    async handle({ head, body }) {
      refuseRepeated(body, ['token', 'token_type_hint', 'client_id', 'client_secret']);
      const parameters = parametersOf(body);
      const client = await identify(head.headers.authorization, parameters, deps.db);
      await revokeToken(deps, client, parameters('token'), addressOf(head.raw, deps.isBehindProxy));
      return answer(200, {});
    },
  };
  return {
    provenBy: 'client',
    admit: async () => {}, // the application authenticates in the body
    routes: [route, revocation],
    refuse: (error, head) => errorAnswer(error, head, deps),
  };
}

async function exchange(client: Client, parameters: Parameters, address: string, { db, ids, issuer }: TokenDeps) {
  const [grantType, code] = [parameters('grant_type'), parameters('code')];
  if (grantType === undefined) throw new OauthError('invalid_request', 'grant_type is missing');
  if (grantType !== 'authorization_code') {
    throw new OauthError('unsupported_grant_type', 'the only grant type is authorization_code');
  }
  if (code === undefined) throw new OauthError('invalid_request', 'code is missing');
  const [redirectUri, verifier] = [parameters('redirect_uri'), parameters('code_verifier')];
  const resource = readResource(parameters('resource'), issuer());
  const redemption = { code, redirectUri, verifier, resource, address };
  const redeemed = await redeem(db, ids, client, redemption).catch((error: unknown) => {
    if (isForeignKeyViolation(error)) return undefined; // the application was deleted at this moment
    throw error;
  });
  if (!redeemed) {
    throw new OauthError('invalid_grant', 'the code is unknown, used, too old, or was issued for another request');
  }
  return redeemed;
}

/** RFC 6749 section 5.1: a response with a token must not be cached. */
function answer(status: number, content: object, headers: Record<string, string> = {}): PlainAnswer {
  return { status, headers: { 'cache-control': 'no-store', pragma: 'no-cache', ...headers }, content };
}

/** RFC 6749 section 5.2. */
function errorAnswer(error: unknown, { id, headers }: Head, { onTrouble }: TokenDeps): PlainAnswer {
  const known = error instanceof OauthError ? error : unreadableBody(error);
  // A repeated request with the same code succeeds once the database is back.
  if (isUnavailable(error)) return answer(503, { error: 'temporarily_unavailable' });
  if (!known) {
    onTrouble(error, id);
    return answer(500, { error: 'server_error' });
  }
  const status = known.code === 'invalid_client' ? 401 : 400;
  const challenge = status === 401 ? clientChallenge(headers) : undefined;
  const body = { error: known.code, error_description: known.message };
  return answer(status, body, challenge === undefined ? {} : { 'www-authenticate': challenge });
}

function unreadableBody(error: unknown): OauthError | undefined {
  const status = error instanceof Error && 'statusCode' in error ? Number(error.statusCode) : 500;
  const isTheirs = error instanceof ApiError || (status >= 400 && status < 500);
  return isTheirs ? new OauthError('invalid_request', 'the form cannot be read') : undefined;
}
