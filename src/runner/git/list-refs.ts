import { bytes, most } from '../../shared/domain/bounds.ts';
import { digestOf, writeListing, type Refs } from '../../shared/domain/ref-listings.ts';
import { isRefName } from '../../shared/domain/ref-names.ts';
import type { Limiter } from '../../shared/lib/limiter.ts';
import { FetchError } from './failures.ts';
import { talk, type Remote } from './remote.ts';
import { reach, sourceOf, type GitDeps, type Source } from './sources.ts';
import { withoutLog, type UnloggedRequest } from './without-log.ts';

export interface ListRequest extends UnloggedRequest {
  privateKey: string;
  digest: string | null;
  keepMs: number;
}

/** `listing` is missing if it equals the known one. */
export interface Listed {
  listing?: string;
}

export interface ListDeps extends Pick<GitDeps, 'sessions' | 'connections' | 'longestSilenceMs'> {
  /** Limits simultaneous polls of one host. */
  asking: Limiter;
  /** Limits connections being opened to one host: an sshd refuses too many. */
  connecting: Limiter;
  mostOpen: number;
}

/** git collects all refs in memory before it prints them. So this also limits a host that sends refs without end. */
const memoryBytes = 256 * 1024 * 1024;
/** A tag with a message has two lines. */
const mostOutput = 2 * bytes.refListing;
/** The limit over HTTPS, which includes the bytes that the protocol adds. */
const mostSent = 2 * mostOutput;

export async function listRefs(deps: ListDeps, request: ListRequest): Promise<Listed> {
  const { host } = sourceOf({ ...request, writeLog: () => {} }).address;
  const done = await deps.asking.take(host, request.signal);
  try {
    return await withoutLog(request, async (source) => {
      const listing = writeListing(await ask(deps, { ...source, privateKey: request.privateKey }, request.keepMs));
      return digestOf(listing) === request.digest ? {} : { listing };
    });
  } finally {
    done();
  }
}

type Reached = Source & { privateKey: string };

async function ask(deps: ListDeps, source: Reached, keepMs: number): Promise<Refs> {
  const { connections, connecting, mostOpen } = deps;
  const { address, signal } = source;
  const isOpen = address.scheme === 'https' || connections.isOpen({ ...source, poll: { keepMs } });
  const release = isOpen ? undefined : await connecting.take(address.host, signal);
  const poll = { keepMs: isOpen || connections.count() < mostOpen ? keepMs : 0 };
  try {
    return await reach({ ...deps, checkoutBytes: mostSent }, { ...source, poll }, (remote) => {
      release?.(); // it is connected: other connections need not wait for its response
      return list(deps, remote);
    });
  } finally {
    release?.();
  }
}

async function list({ sessions }: ListDeps, remote: Remote): Promise<Refs> {
  const way = remote.way('git-upload-pack');
  const how = ['ls-remote', '--quiet', '--heads', '--tags', '--end-of-options', remote.url];
  const limits = { memoryBytes };
  const unreadable = (why: string): FetchError =>
    new FetchError('remote_failed', `The repository ${remote.url} cannot be polled: ${why}.`);
  try {
    return await sessions.use({ access: 'read', signal: remote.signal, way, limits }, async (session) => {
      const listed = await talk(session, remote, how, { maxOutput: mostOutput });
      if (listed.truncated) throw unreadable(tooMany);
      if (listed.status !== 0) throw remote.explain(listed) ?? remote.failure('remote_failed');
      const refs = refsIn(listed.stdout.toString());
      if (typeof refs === 'string') throw unreadable(refs);
      return refs;
    });
  } catch (error) {
    if (!(error instanceof FetchError) || error.kind !== 'out_of_memory') throw error;
    throw unreadable('its list of refs exceeds the limit');
  }
}

const tooMany = `it has more than ${most.refs} branches and tags, or names of enormous length`;

/** Only well-formed names count, because the host is untrusted. Returns a sentence if the listing is unusable. */
export function refsIn(printed: string): Refs | string {
  const refs = new Map<string, string>();
  let size = 0;
  for (const line of printed.split('\n')) {
    const [sha = '', listed = ''] = line.split('\t');
    if (/^[0-9a-f]{64}$/.test(sha)) return 'its commits have names of the kind sha256';
    const name = listed.replace(/\^\{\}$/, ''); // the commit of a tag with a message follows that tag
    // A name that is not UTF-8 cannot be requested.
    if (!/^[0-9a-f]{40}$/.test(sha) || !/^refs\/(heads|tags)\/./.test(name)) continue;
    if (!isRefName(name) || name.includes('\uFFFD')) continue;
    if (!refs.has(name)) size += sha.length + Buffer.byteLength(name) + 2;
    refs.set(name, sha);
    if (refs.size > most.refs || size > bytes.refListing) return tooMany;
  }
  return refs;
}
