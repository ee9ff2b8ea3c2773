import { run } from '../../lib/processes.ts';
import { UnavailableError } from './public-https.ts';
import { parsePublicUrl, type RepositoryAddress } from './repository-url.ts';
import { quoted, type SshRemote } from './ssh-channel.ts';

/** The address of a repository's large files, and the headers for it. */
export interface LfsPlace {
  url: URL;
  /** The headers that the host issued for this: secrets. */
  headers: Record<string, string>;
}

const longestMs = 30_000;

/** Where anybody would ask: the address follows from the repository's own, as git-lfs does it. */
export function publicLfsPlace({ transport, url: own, host, path }: RepositoryAddress): LfsPlace {
  const url = transport === 'https' ? own : parsePublicUrl(`https://${host}/${path.replace(/^\/+/, '')}`)?.url;
  if (url === undefined) throw new UnavailableError(`no https address follows from ${own}`, true);
  return { url: new URL(`${url.replace(/(\.git)?$/, '.git')}/info/lfs`), headers: {} };
}

/** Asks a host over SSH for the address; undefined when it has none. */
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

/** Headers that the host must not set. */
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
