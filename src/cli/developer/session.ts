import { readFileSync } from 'node:fs';
import { Client } from '../client/client.ts';
import { Failure } from '../client/failure.ts';
import { readAddress } from '../client/server.ts';
import { readStore } from './store.ts';
import { words } from './text.ts';

export function readCaFile(path: string): string {
  try {
    const text = readFileSync(path, 'utf8');
    if (text.includes('-----BEGIN CERTIFICATE-----')) return text;
  } catch (error) {
    throw new Failure('invalid', words`Cannot read the certificates in ${path}: ${(error as Error).message}`);
  }
  throw new Failure('invalid', words`${path} contains no certificate in PEM format.`);
}

export function isSignedIn(env: NodeJS.ProcessEnv): boolean {
  const { HEADRACE_URL: address = '', HEADRACE_TOKEN: token = '' } = env;
  const { current, servers } = readStore(env);
  const url = address === '' ? current : readAddress(address);
  return token !== '' || servers.some((server) => server.url === url);
}

/** The environment takes precedence over stored credentials. */
export function openClient(env: NodeJS.ProcessEnv, caFile: string | undefined): Client {
  const { HEADRACE_URL: address = '', HEADRACE_TOKEN: token = '' } = env;
  if (token !== '' && !token.startsWith('hrt_'))
    throw new Failure(
      'refused',
      'HEADRACE_TOKEN must be a token (hrt_…), such as headrace login creates. An API key (hrk_…) only works together with an e-mail address.',
    );
  const { current, servers } = readStore(env);
  const url = address === '' ? current : readAddress(address);
  const stored = servers.find((server) => server.url === url);
  if (url === undefined && token !== '')
    throw new Failure('refused', 'HEADRACE_TOKEN needs HEADRACE_URL too: the address of the server.');
  if (url === undefined || (!stored && token === ''))
    throw new Failure(
      'refused',
      `You are not signed in${url === undefined ? '' : ` to ${url}`}. Run: headrace login ${url ?? 'URL'}`,
    );
  const trust = caFile === undefined ? { ca: stored?.ca, pinned: stored?.pinned } : { ca: readCaFile(caFile) };
  return new Client({ url, ...trust }, token || (stored?.token ?? ''));
}
