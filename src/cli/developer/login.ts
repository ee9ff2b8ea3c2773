import { certificateOf, isTrusted } from '../client/certificate.ts';
import { Client } from '../client/client.ts';
import { Failure } from '../client/failure.ts';
import { readAddress, type ServerAddress } from '../client/server.ts';
import { beginSignIn, endSignIn, outOfBand, revoke } from '../client/sign-in.ts';
import type { Call } from './call.ts';
import { awaitCode, openBrowser } from './loopback.ts';
import { agrees, ask } from './question.ts';
import { readCaFile } from './session.ts';
import { readStore, remember } from './store.ts';
import { clean, words } from './text.ts';

export async function run(call: Call<{ browser: boolean }>, address: string): Promise<void> {
  const { screen, env } = call;
  const server = await trusted(call, readAddress(address));
  const token = await (call.options.browser ? byBrowser(call, server) : byCode(call, server));
  const client = new Client(server, token);
  const { email } = await client.call('whoami').finally(() => client.close());
  const before = readStore(env).servers.find(({ url }) => url === server.url);
  remember(env, { ...server, token, email });
  if (before) await revoke(server, before.token).catch(() => {});
  if (screen.isJson) screen.json({ url: server.url, email });
  else screen.print(words`Signed in to ${server.url} as ${email}.`);
}

/** The certificate is verified, or the user has accepted it. */
async function trusted(call: Call, url: string): Promise<ServerAddress> {
  const { screen, env, caFile: file } = call;
  if (file !== undefined) {
    const server = { url, ca: readCaFile(file) };
    if (await isTrusted(server)) return server;
    throw new Failure('untrusted', words`The certificate of ${url} was not issued by an authority in ${file}.`);
  }
  const known = readStore(env).servers.find((server) => server.url === url);
  for (const server of known ? [{ url, ca: known.ca, pinned: known.pinned }, { url }] : [{ url }])
    if (await isTrusted(server)) return server;
  const pinned = await certificateOf(url);
  screen.hint(words`The certificate of ${url} is unknown here.`);
  screen.hint(`Its SHA-256 fingerprint:\n${inTwoLines(pinned.fingerprint)}`);
  if (known?.pinned) screen.hint(`You accepted another before:\n${inTwoLines(known.pinned.fingerprint)}`);
  if (!process.stdin.isTTY)
    throw new Failure(
      'untrusted',
      'There is no terminal to accept the certificate on. Pass its authority with --ca-file FILE.',
    );
  if (!(await agrees(screen, 'Compare it with the fingerprint from the operator. Accept it from now on?')))
    throw new Failure('untrusted', 'Not accepted. Nothing was sent to the server.');
  return { url, pinned };
}

/** For narrow screens. */
function inTwoLines(fingerprint: string): string {
  const half = Math.ceil(fingerprint.length / 2);
  return `  ${clean(fingerprint.slice(0, half))}\n  ${clean(fingerprint.slice(half))}`;
}

async function byCode({ screen }: Call, server: ServerAddress): Promise<string> {
  const signIn = beginSignIn(server, outOfBand);
  const show = (line: string): void => (screen.isJson ? screen.hint(line) : screen.print(line));
  show('Open this address in a browser, allow headrace-cli, and copy the code that it shows:');
  show(`  ${signIn.url}`);
  const code = await ask(screen, 'Code: ');
  if (code === '') throw new Failure('refused', 'No code was entered. Run headrace login again.');
  return endSignIn(server, signIn, code);
}

async function byBrowser({ screen, env }: Call, server: ServerAddress): Promise<string> {
  await using waiting = await awaitCode();
  const signIn = beginSignIn(server, waiting.redirect);
  const show = (line: string): void => (screen.isJson ? screen.hint(line) : screen.print(line));
  show('Allow headrace-cli in your browser. If none opens, open this address on this machine:');
  show(`  ${signIn.url}`);
  openBrowser(signIn.url, env);
  return await endSignIn(server, signIn, await waiting.code(signIn.state));
}
