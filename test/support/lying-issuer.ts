import { createHash, generateKeyPairSync, sign } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { client } from './issuer.ts';

type Step = 'description' | 'keys' | 'token' | 'userinfo';

const steps: Record<string, Step> = {
  '/.well-known/openid-configuration': 'description',
  '/keys': 'keys',
  '/token': 'token',
  '/userinfo': 'userinfo',
};

/** An issuer that answers as a test wants it to: for others, wrongly, slowly, or not at all. */
export class LyingIssuer {
  readonly #server: Server;
  readonly #key = generateKeyPairSync('rsa', { modulusLength: 2048 });
  readonly #otherKey = generateKeyPairSync('rsa', { modulusLength: 2048 });
  claims: Record<string, unknown> = {};
  userinfo: Record<string, unknown> = {};
  isSignedByAnother = false;
  /** What happens at a step instead of an answer. */
  at: Partial<Record<Step, (response: ServerResponse) => void>> = {};
  nonce: string | undefined = '';
  tokenCalls: URLSearchParams[] = [];

  readonly #origin: string;

  private constructor(server: Server, origin: string) {
    this.#origin = origin;
    this.#server = server;
    server.on('request', (request: IncomingMessage, response: ServerResponse) => void this.#answer(request, response));
  }

  /** With a certificate it speaks TLS, under the name `localhost`. */
  static async start(certificate?: { key: string; cert: string }): Promise<LyingIssuer> {
    const server = (certificate ? createTlsServer(certificate) : createServer()).listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new LyingIssuer(server, certificate ? 'https://localhost' : 'http://127.0.0.1');
  }

  get url(): string {
    return `${this.#origin}:${(this.#server.address() as AddressInfo).port}`;
  }

  /** What the browser brings back from the address that our server sent it to. */
  back(address: string, more: Record<string, string> = {}): string {
    const { searchParams } = new URL(address);
    this.nonce = searchParams.get('nonce') ?? '';
    const query = { code: 'a-code', state: searchParams.get('state') ?? '', iss: this.url, ...more };
    return `/ui/oidc/callback?${new URLSearchParams(query).toString()}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, 'close');
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [path = ''] = (request.url ?? '').split('?');
    const step = steps[path];
    let body = '';
    for await (const chunk of request) body += String(chunk);
    if (step === 'token') this.tokenCalls.push(new URLSearchParams(body));
    const instead = step && this.at[step];
    if (instead) return instead(response);
    const told = step && this.#told()[step];
    response.writeHead(told ? 200 : 404, { 'content-type': 'application/json' }).end(JSON.stringify(told ?? {}));
  }

  #told(): Record<Step, object> {
    const { url } = this;
    return {
      description: {
        issuer: url,
        authorization_endpoint: `${url}/authorize`,
        token_endpoint: `${url}/token`,
        userinfo_endpoint: `${url}/userinfo`,
        jwks_uri: `${url}/keys`,
        response_types_supported: ['code'],
        subject_types_supported: ['public'],
        id_token_signing_alg_values_supported: ['RS256'],
        authorization_response_iss_parameter_supported: true,
      },
      keys: { keys: [{ ...this.#key.publicKey.export({ format: 'jwk' }), kid: 'k', alg: 'RS256', use: 'sig' }] },
      token: { access_token: 'an-access-token', token_type: 'Bearer', expires_in: 60, id_token: this.#idToken() },
      userinfo: { sub: 'somebody', ...this.userinfo },
    };
  }

  #idToken(): string {
    const now = Math.floor(Date.now() / 1000);
    const usual = { iss: this.url, aud: client.id, sub: 'somebody', nonce: this.nonce, iat: now, exp: now + 60 };
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const text = `${part({ alg: 'RS256', kid: 'k' })}.${part({ ...usual, ...this.claims })}`;
    const { privateKey } = this.isSignedByAnother ? this.#otherKey : this.#key;
    return `${text}.${sign('sha256', Buffer.from(text), privateKey).toString('base64url')}`;
  }
}

/** PKCE: the challenge that a verifier proves. */
export function challengeOf(verifier: string): string {
  return createHash('sha256').update(verifier).digest('base64url');
}
