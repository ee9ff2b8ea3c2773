import { promises as dns } from 'node:dns';
import http, { type ClientRequest, type RequestOptions } from 'node:http';
import https from 'node:https';
import type { TestContext } from 'node:test';
import type { Dialect, FakeForge } from './fake-forge.ts';

/** The address that people open, and the base of its API. */
const places: Partial<Record<Dialect, { url: string; api: string }>> = {
  github: { url: 'https://github.com', api: 'https://api.github.com' },
  gitlab: { url: 'https://gitlab.com', api: 'https://gitlab.com/api/v4' },
  cloud: { url: 'https://bitbucket.org', api: 'https://api.bitbucket.org/2.0' },
};

/**
 * Has the public address of a forge lead to a fake in this process, until the test is over: Node is told another address
 * for its name, and what would go there over TLS comes to the fake. Answers what somebody enters to connect it.
 */
export function publicly(t: TestContext, forge: FakeForge): Record<string, string> {
  const place = places[forge.dialect];
  if (!place) throw new Error(`there is no public ${forge.dialect}`);
  const { host } = new URL(place.api);
  t.mock.method(dns.Resolver.prototype, 'resolve4', async (name: string) => {
    if (name === host) return ['8.8.8.8'];
    throw new Error(`no test asks for ${name}`);
  });
  const { request } = https;
  t.mock.method(https, 'request', (target: URL, options: RequestOptions, ...more: []): ClientRequest => {
    if (!(target instanceof URL) || target.host !== host) return request(target, options, ...more);
    const { method, headers, signal } = options;
    const here = { method, headers, agent: false, ...(signal && { signal }) } as RequestOptions;
    return http.request(target.href.replace(place.api, forge.api), here);
  });
  return { provider: forge.provider, url: '', token: forge.fields.token ?? '' };
}
