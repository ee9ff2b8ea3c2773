import { run } from '../../lib/processes.ts';
import type { RepositoryAddress } from './repository-url.ts';
import { quoted, type SshRemote } from './ssh-channel.ts';

/** Where the files of a repository lie, and what to show there. */
export interface LfsPlace {
  url: URL;
  /** Whatever the host has given out for this: secrets. */
  headers: Record<string, string>;
}

const longestMs = 30_000;

/** What is public says so by its address. */
export function publicLfsPlace({ url }: RepositoryAddress): LfsPlace {
  return { url: new URL(`${url.replace(/(\.git)?$/, '.git')}/info/lfs`), headers: {} };
}

/** A host is asked over SSH where the files are; undefined when it does not say. */
export async function askForLfsPlace(remote: SshRemote, signal: AbortSignal): Promise<LfsPlace | undefined> {
  const command = `git-lfs-authenticate ${quoted(remote.path)} download`;
  const env = { PATH: process.env['PATH'], HOME: '/nonexistent', LC_ALL: 'C.UTF-8' };
  const untilTimeout = AbortSignal.any([signal, AbortSignal.timeout(longestMs)]);
  const options = { env, signal: untilTimeout, maxOutput: 64 * 1024 };
  const said = await run('ssh', [...remote.ssh, '--', remote.destination, command], options).catch(() => undefined);
  signal.throwIfAborted();
  return said?.status === 0 ? placeIn(said.stdout.toString()) : undefined;
}

function placeIn(text: string): LfsPlace | undefined {
  try {
    const { href, header } = JSON.parse(text) as { href?: unknown; header?: unknown };
    const url = typeof href === 'string' ? URL.parse(href) : null;
    return url === null ? undefined : { url, headers: headersIn(header) };
  } catch {
    return undefined;
  }
}

/** What makes the call itself is not theirs to say. */
const ours = new Set([
  'host',
  'connection',
  'content-length',
  'transfer-encoding',
  'accept-encoding',
  'expect',
  'upgrade',
]);
const mostHeaders = 32;

export function headersIn(value: unknown): Record<string, string> {
  if (typeof value !== 'object' || value === null) return {};
  const fields = Object.entries(value as Record<string, unknown>).slice(0, mostHeaders);
  const usable = fields.filter(([name, text]) => {
    const isText = typeof text === 'string' && text.length <= 8192 && /^[\t\x20-\x7e]*$/.test(text);
    return isText && /^[\w-]{1,100}$/.test(name) && !ours.has(name.toLowerCase());
  });
  return Object.fromEntries(usable.map(([name, text]) => [name.toLowerCase(), String(text)]));
}
