import { readFileSync } from 'node:fs';
import { Client } from '../client/client.ts';
import { Failure } from '../client/failure.ts';
import { readAddress, type ServerAddress } from '../client/server.ts';
import { readStore, type SignedIn } from './store.ts';
import { words } from './text.ts';

/** Which server a command talks to, and as whom. The environment comes before what was stored. */

export interface Choice {
  env: NodeJS.ProcessEnv;
  caFile?: string | undefined;
}

export function readCaFile(path: string): string {
  try {
    const text = readFileSync(path, 'utf8');
    if (text.includes('-----BEGIN CERTIFICATE-----')) return text;
  } catch (error) {
    throw new Failure('invalid', words`Cannot read the certificates in ${path}: ${(error as Error).message}`);
  }
  throw new Failure('invalid', words`${path} has no certificate in PEM form in it.`);
}

/** The server with the address that a person wrote, with what is known of it. */
export function serverAt(text: string, { env, caFile }: Choice): ServerAddress {
  const url = readAddress(text);
  const file = caFile ?? (env.HEADRACE_CA_FILE === '' ? undefined : env.HEADRACE_CA_FILE);
  if (file !== undefined) return { url, ca: readCaFile(file) };
  const known = readStore(env).servers.find((server) => server.url === url);
  return { url, ca: known?.ca, pinned: known?.pinned };
}

export function signedIn(choice: Choice): SignedIn {
  const { env } = choice;
  const { HEADRACE_URL: address = '', HEADRACE_TOKEN: token = '' } = env;
  if (token !== '' && !token.startsWith('hrt_'))
    throw new Failure(
      'refused',
      'HEADRACE_TOKEN has to be a token (hrt_…), such as headrace login gets. An API key (hrk_…) counts only together with an e-mail address.',
    );
  if (address !== '' && token !== '') return { ...serverAt(address, choice), token, email: '' };
  const { current, servers } = readStore(env);
  const url = address === '' ? current : readAddress(address);
  const stored = servers.find((server) => server.url === url);
  if (token !== '' && address === '') {
    if (!stored)
      throw new Failure('refused', 'HEADRACE_TOKEN needs HEADRACE_URL beside it: the address of the server.');
    return { ...serverAt(stored.url, choice), token, email: '' };
  }
  if (!stored)
    throw new Failure(
      'refused',
      `You are not signed in${url === undefined ? '' : ` to ${url}`}. Run: headrace login ${url ?? 'URL'}`,
    );
  return { ...stored, ...(choice.caFile === undefined ? {} : serverAt(stored.url, choice)) };
}

export function openClient(choice: Choice): Client {
  const { token, ...server } = signedIn(choice);
  return new Client(server, token);
}
