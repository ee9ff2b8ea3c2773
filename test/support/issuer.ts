import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
// oxlint-disable-next-line import/no-named-as-default -- its types have only the default
import Provider from 'oidc-provider';
import type { TestDatabase } from './databases.ts';
import type { Answer } from './client.ts';
import { freePort } from './ports.ts';
import type { Tab } from './tab.ts';

export interface Claims {
  email?: string;
  email_verified?: boolean;
  groups?: string[];
}

export const client = { id: 'headrace', secret: 'a secret of the client', baseUrl: 'https://ci.example.org' };

/** The settings of a server that signs in at an issuer. */
export function issuerSettings(issuer: string, more: Record<string, string> = {}): Record<string, string> {
  return {
    base_url: client.baseUrl,
    oidc_issuer: issuer,
    oidc_client_id: client.id,
    oidc_client_secret: client.secret,
    oidc_name: 'Acme',
    ...more,
  };
}

/** npm's certified provider. Its people sign in without a password: `signingIn` names who is at the keyboard. */
export class RealIssuer {
  readonly url: string;
  readonly people = new Map<string, Claims>();
  signingIn = '';
  #server: Server | undefined;
  readonly #provider: Provider;
  /** Whether it gives refresh tokens. */
  givesRefreshTokens = true;

  constructor(port: number) {
    this.url = `http://127.0.0.1:${port}`;
    this.#provider = new Provider(this.url, {
      clients: [
        {
          client_id: client.id,
          client_secret: client.secret,
          redirect_uris: [`${client.baseUrl}/ui/oidc/callback`],
          grant_types: ['authorization_code', 'refresh_token'],
        },
      ],
      claims: { openid: ['sub'], email: ['email', 'email_verified'], profile: ['groups'] },
      findAccount: (_: unknown, id: string) => {
        const claims = this.people.get(id);
        return claims && { accountId: id, claims: () => ({ sub: id, ...claims }) };
      },
      issueRefreshToken: () => this.givesRefreshTokens,
      cookies: { keys: ['a key of the tests'] },
      features: { devInteractions: { enabled: false } },
      interactions: { url: (_: unknown, { uid }: { uid: string }) => `/keyboard/${uid}` },
    });
  }

  static async start({ afterwards }: Pick<TestDatabase, 'afterwards'>): Promise<RealIssuer> {
    const issuer = new RealIssuer(await freePort());
    await issuer.open();
    afterwards(() => issuer.close());
    return issuer;
  }

  async open(): Promise<void> {
    const answer = this.#provider.callback();
    this.#server = createServer((request, response) => {
      void (request.url?.startsWith('/keyboard/') ? this.#attend(request, response) : answer(request, response));
    });
    this.#server.listen(Number(new URL(this.url).port), '127.0.0.1');
    await once(this.#server, 'listening');
  }

  async close(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (!server) return;
    server.close();
    server.closeAllConnections();
    await once(server, 'close');
  }

  async #attend(...[request, response]: Parameters<Parameters<typeof createServer>[1] & object>): Promise<void> {
    const { prompt, params } = await this.#provider.interactionDetails(request, response);
    if (prompt.name === 'login') {
      const login = { accountId: this.signingIn };
      return this.#provider.interactionFinished(request, response, { login });
    }
    const grant = new this.#provider.Grant({ accountId: this.signingIn, clientId: client.id });
    grant.addOIDCScope(String(params.scope));
    return this.#provider.interactionFinished(request, response, { consent: { grantId: await grant.save() } });
  }
}

/** Follows the issuer's redirects until it sends the browser back. Returns the path and query at our server. */
export async function signInThere(address: string): Promise<string> {
  const cookies = new Map<string, string>();
  for (let at = address; ;) {
    const cookie = Array.from(cookies, ([name, value]) => `${name}=${value}`).join('; ');
    const answer = await fetch(at, { redirect: 'manual', headers: { cookie } });
    for (const line of answer.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      cookies.set(name, value);
    }
    const location = answer.headers.get('location');
    if (location === null) throw new Error(`${at} answered ${answer.status}: ${await answer.text()}`);
    const next = new URL(location, at);
    if (next.origin === client.baseUrl) return next.pathname + next.search;
    at = next.href;
  }
}

/** The address of the button on a page. */
export function buttonOf(page: { text: string }): string {
  const [, address] = /href="(\/ui\/oidc\/start[^"]*)"/.exec(page.text) ?? [];
  if (address === undefined) throw new Error(`no button: ${page.text}`);
  return address.replaceAll('&amp;', '&');
}

/** Presses the button on a page, signs in at the issuer as somebody, and comes back. */
export async function signInAs(issuer: RealIssuer, as: string, tab: Tab, at = '/ui/sign-in'): Promise<Answer> {
  issuer.signingIn = as;
  const away = await tab.get(buttonOf(await tab.get(at)));
  if (away.status !== 302) throw new Error(`${away.status}: ${away.text}`);
  return tab.get(await signInThere(away.headers.location ?? ''));
}
