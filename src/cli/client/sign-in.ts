import { createHash, randomBytes } from 'node:crypto';
import { Failure } from './failure.ts';
import { Transport } from './transport.ts';
import type { ServerAddress } from './server.ts';

/** The application that every server has, and the scopes that the commands need. */
const clientId = 'headrace-cli';
const scopes =
  'user projects build_requests build_requests_create shells commits suites dependencies deploys notifications';
export const outOfBand = 'urn:ietf:wg:oauth:2.0:oob';

/** RFC 6749 with PKCE (RFC 7636). */
export interface SignIn {
  url: string;
  state: string;
  redirect: string;
  verifier: string;
}

export function beginSignIn(server: ServerAddress, redirect: string): SignIn {
  const [verifier, state] = [randomBytes(32).toString('base64url'), randomBytes(16).toString('base64url')];
  const query = new URLSearchParams({
    client_id: clientId,
    redirect_uri: redirect,
    scope: scopes,
    state,
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
  });
  return { url: `${server.url}/oauth2/authorize?${query.toString()}`, state, redirect, verifier };
}

export async function endSignIn(server: ServerAddress, { redirect, verifier }: SignIn, code: string): Promise<string> {
  const fields = { grant_type: 'authorization_code', code, redirect_uri: redirect, code_verifier: verifier };
  const text = await post(server, '/oauth2/access_token', fields).catch((error: unknown) => {
    if (!(error instanceof Failure) || (error.kind !== 'invalid' && error.kind !== 'refused')) throw error;
    throw new Failure('refused', 'The server rejected this code. Run headrace login again.', error.more);
  });
  const { access_token: token } = JSON.parse(text) as { access_token?: unknown };
  if (typeof token !== 'string')
    throw new Failure('unreachable', 'The address does not answer like a Headrace server. Check it.');
  return token;
}

/** RFC 7009. */
export async function revoke(server: ServerAddress, token: string): Promise<void> {
  await post(server, '/oauth2/revoke', { token });
}

async function post(server: ServerAddress, path: string, fields: Record<string, string>): Promise<string> {
  const transport = new Transport(server);
  try {
    const body = new URLSearchParams({ client_id: clientId, ...fields }).toString();
    const headers = { 'content-type': 'application/x-www-form-urlencoded' };
    return await transport.textOf(await transport.open(path, { method: 'POST', headers, body }));
  } finally {
    transport.close();
  }
}
