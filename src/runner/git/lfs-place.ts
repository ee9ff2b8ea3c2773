import { run } from '../../lib/processes.ts';
import { connected, type Source, type Workshop } from './obtain.ts';
import { UnavailableError } from './public-https.ts';
import { quoted } from './ssh-channel.ts';

/** Where the files of a repository lie, and what to show there. */
export interface LfsPlace {
  url: URL;
  /** Whatever the host has given out for this: secrets. */
  headers: Record<string, string>;
}

const longestMs = 30_000;

/** A host is asked over SSH, with the project's key, where the files are. What is public says so by its address. */
export async function lfsPlaceOf(workshop: Workshop, source: Source): Promise<LfsPlace> {
  const { address, signal } = source;
  if (address.transport === 'https') {
    const url = new URL(`${address.url.replace(/(\.git)?$/, '.git')}/info/lfs`);
    return { url, headers: {} };
  }
  const said = await connected(workshop, source, async (ssh) => {
    const command = `git-lfs-authenticate ${quoted(address.path)} download`;
    const env = { PATH: process.env['PATH'], HOME: '/nonexistent', LC_ALL: 'C.UTF-8' };
    const patience = AbortSignal.any([signal, AbortSignal.timeout(longestMs)]);
    const options = { env, signal: patience, maxOutput: 64 * 1024 };
    return run('ssh', [...ssh, '--', address.destination, command], options).catch(() => undefined);
  });
  signal.throwIfAborted();
  const place = said?.status === 0 ? placeIn(said.stdout.toString()) : undefined;
  if (place === undefined) throw new UnavailableError(`the host ${address.host} has no Git LFS over SSH`, true);
  return place;
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
