import { readAddress } from '../client/server.ts';
import { revoke } from '../client/sign-in.ts';
import type { Call } from './call.ts';
import { WrongUse } from './errors.ts';
import { forget, readStore } from './store.ts';
import { words } from './text.ts';

/** The token is revoked first: if it were only deleted here, a copy of it would still work. */
export async function run({ env, screen }: Call, address?: string): Promise<void> {
  const { current, servers } = readStore(env);
  const url = address === undefined ? current : readAddress(address);
  const server = servers.find((one) => one.url === url);
  if (!server)
    throw new WrongUse(url === undefined ? 'You are not signed in.' : words`You are not signed in to ${url}.`);
  await revoke(server, server.token);
  forget(env, server.url);
  if (screen.isJson) screen.json({ url: server.url, signed_out: true });
  else screen.print(words`Signed out of ${server.url}.`);
}
