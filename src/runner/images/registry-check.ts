import type { IncomingMessage } from 'node:http';
import { Agent, request } from 'node:https';
import type { SecureContext } from 'node:tls';
import { allowedLookup, type AddressRules } from '../../shared/lib/address-filter.ts';
import { readUntrustedObject } from '../../shared/lib/untrusted-json.ts';
import type { RegistryAccess } from '../../shared/protocol/index.ts';
import type { RegistrySource } from './tools.ts';
import type { RegistryTrust } from './registry-trust.ts';

/**
 * Looks up a reference's digest with an account's credentials. The sandboxed program would take a hundred times as
 * long, for every build. Any response except a plain digest gives undefined. Then the caller uses that program.
 */
export interface RegistryCheck {
  digestOf(source: RegistrySource, signal: AbortSignal): Promise<string | undefined>;
}

const answerWithinMs = 5000;
const mostOfToken = 64 * 1024;
const hub = { name: 'docker.io', server: 'registry-1.docker.io' };
const accepted = [
  'application/vnd.oci.image.index.v1+json',
  'application/vnd.oci.image.manifest.v1+json',
  'application/vnd.docker.distribution.manifest.list.v2+json',
  'application/vnd.docker.distribution.manifest.v2+json',
].join(', ');

export function openRegistryCheck(rules: AddressRules, trust: RegistryTrust): RegistryCheck {
  return {
    async digestOf({ reference, access }, signal) {
      const { host, name, tag = 'latest', digest } = reference;
      const server = host === hub.name ? hub.server : host;
      const within = AbortSignal.any([signal, AbortSignal.timeout(answerWithinMs)]);
      // Connections are not shared between checks.
      const agent = new Agent({ keepAlive: true, maxSockets: 1 });
      const call = async (url: URL, of: string, method: string, authorization?: string): Promise<IncomingMessage> => {
        const secureContext = trust.contextFor(of);
        if (url.protocol !== 'https:' || !secureContext) throw new Error('this address is not allowed');
        const lookup = await allowedLookup(url, rules, within);
        return answerTo(url, { method, agent, lookup, secureContext, signal: within, authorization });
      };
      try {
        const url = new URL(`https://${server}/v2/${name}/manifests/${digest ?? tag}`);
        let answer = await call(url, server, 'HEAD');
        if (answer.statusCode === 401) {
          answer.resume();
          const challenge = challengeOf(answer.headers['www-authenticate'] ?? '');
          answer = await call(url, server, 'HEAD', await authorizationFor(challenge, name, access, call));
        }
        answer.resume();
        const told = String(answer.headers['docker-content-digest']);
        return answer.statusCode === 200 && /^sha256:[0-9a-f]{64}$/.test(told) ? told : undefined;
      } catch {
        signal.throwIfAborted();
        return undefined;
      } finally {
        agent.destroy();
      }
    },
  };
}

interface CallOptions {
  method: string;
  agent: Agent;
  lookup: Awaited<ReturnType<typeof allowedLookup>>;
  secureContext: SecureContext;
  signal: AbortSignal;
  authorization: string | undefined;
}

async function answerTo(url: URL, { authorization, ...options }: CallOptions): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const headers = { accept: accepted, 'user-agent': 'Headrace', ...(authorization !== undefined && { authorization }) };
  request(url, { ...options, headers, rejectUnauthorized: true })
    .once('response', resolve)
    .on('error', reject)
    .once('upgrade', (_, socket) => {
      socket.destroy();
      reject(new Error('it wants to speak another protocol'));
    })
    .end();
  return promise;
}

interface Challenge {
  scheme: string;
  values: Record<string, string>;
}

export function challengeOf(header: string): Challenge {
  const [, scheme = '', rest = ''] = /^(\w+) +(.*)$/s.exec(header) ?? [];
  const values = Object.fromEntries(
    // The word boundary keeps this linear. Without it, a long word would be searched from each of its letters.
    [...rest.matchAll(/\b(\w+)="([^"]*)"/g)].map(([, key = '', value = '']) => [key, value]),
  );
  return { scheme: scheme.toLowerCase(), values };
}

/** The password itself, or a token that another server issues for it. */
async function authorizationFor(
  { scheme, values }: Challenge,
  name: string,
  { username, password }: RegistryAccess,
  call: (url: URL, of: string, method: string, authorization?: string) => Promise<IncomingMessage>,
): Promise<string> {
  const hasPassword = username !== undefined && password !== undefined;
  const basic = hasPassword ? `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}` : undefined;
  if (scheme === 'basic' && basic !== undefined) return basic;
  if (scheme !== 'bearer' || values.realm === undefined) throw new Error('no supported way to sign in');
  const url = new URL(values.realm);
  if (values.service !== undefined) url.searchParams.set('service', values.service);
  url.searchParams.set('scope', values.scope ?? `repository:${name}:pull`);
  const answer = await call(url, url.host, 'GET', basic);
  if (answer.statusCode !== 200) throw new Error('no token');
  const { token, access_token } = readUntrustedObject(await textOf(answer));
  const given = token ?? access_token;
  if (typeof given !== 'string') throw new Error('no token');
  return `Bearer ${given}`;
}

async function textOf(answer: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    text += chunk.toString('latin1');
    if (text.length > mostOfToken) throw new Error('too long');
  }
  return text;
}
