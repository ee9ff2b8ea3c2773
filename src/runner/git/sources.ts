import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { destinationOf, hostAndPort, parseGitAddress, type GitAddress } from '../../shared/domain/git-address.ts';
import { parseSshPrivateKey } from '../../shared/lib/ssh-private-key.ts';
import type { HttpsCredential } from '../../shared/protocol/index.ts';
import type { Opener, OpenChannel, Service } from './channel.ts';
import type { ConnectionRequest, Connections } from './connections.ts';
import { blamesItself, explain, FetchError, recognize, type RemoteFailure } from './failures.ts';
import { mirrorAt, type Mirror } from './mirror.ts';
import { logWriter, type LogWriter, type WriteLog } from './narrator.ts';
import { containsAny } from './phrases.ts';
import { notObtained, whyUnavailable, type Unavailable } from './public-failures.ts';
import type { Remote } from './remote.ts';
import type { Sessions } from './sessions.ts';
import { openSshChannel } from './ssh-channel.ts';

/* The repositories to fetch from and push to, and the ways to them. */

export interface GitDeps {
  dir: string;
  connections: Connections;
  sessions: Sessions;
  longestSilenceMs: number;
  /** Time limit for a whole fetch or checkout. */
  timeoutMs: number;
  checkoutBytes: number;
}

/** The key in OpenSSH's format, without a passphrase; or a function that gets it when a connection needs it. */
export type KeySource = string | (() => Promise<string>);

/** The credential for the project's own repository over HTTPS; undefined if the repository is public. */
export type CredentialSource = HttpsCredential | (() => Promise<HttpsCredential | undefined>);

export interface Source {
  projectId: string;
  address: GitAddress;
  /** The project's own repository, which a collaborator entered. */
  home: GitAddress;
  /** Whether a repository's content names the address. That may still be the project's own address. */
  isNamed: boolean;
  /** Whether the wanted commit comes from a fork. Then everything in it is untrusted. */
  isFork: boolean;
  privateKey: KeySource;
  credential?: CredentialSource | undefined;
  poll?: ConnectionRequest['poll'];
  narrator: LogWriter;
  signal: AbortSignal;
}

export interface SourceRequest {
  projectId: string;
  /** In the form that domain/git-address.ts reads. */
  repositoryUrl: string;
  privateKey: KeySource;
  credential?: CredentialSource | undefined;
  /** If this is unknown, the commit counts as a fork's. */
  isFork?: boolean;
  writeLog: WriteLog;
  signal: AbortSignal;
}

export function sourceOf(request: SourceRequest): Source {
  const { projectId, repositoryUrl: url, privateKey, credential, isFork = true, writeLog, signal } = request;
  if (!/^[\w-]{1,64}$/.test(projectId)) throw new Error(`${JSON.stringify(projectId)} cannot name a project`);
  const address = parseGitAddress(url);
  if (address === undefined) {
    throw new FetchError(
      'invalid_url',
      `The address ${JSON.stringify(url)} is not of the form user@host:path, ssh://user@host:port/path or https://host/path.`,
    );
  }
  const narrator = logWriter(writeLog);
  return { projectId, address, home: address, isNamed: false, isFork, privateKey, credential, narrator, signal };
}

/** A submodule's source. Its address is untrusted, so the project's credential is never sent there. */
export function namedBy(source: Source, address: GitAddress): Source {
  return { ...source, address, isNamed: true, credential: undefined };
}

/**
 * A project whose address changes gets a new mirror without the old repository's data. Submodules over HTTPS have
 * mirrors that only anonymous fetches fill. The project's own mirror also has other forks and overwritten commits, and
 * a fork may name that repository as its submodule.
 */
export function mirrorOf(deps: GitDeps, { projectId, address, isNamed }: Source): Mirror {
  const content = isNamed && address.scheme === 'https' ? `anonymous ${address.url}` : address.url;
  const name = createHash('sha256').update(content).digest('hex').slice(0, 16);
  return mirrorAt(join(deps.dir, 'mirrors', projectId, name));
}

/** If no connection was opened, the key is unknown and irrelevant. */
export function reason({ projectId, address, privateKey }: Source, kind: RemoteFailure): FetchError {
  const fingerprint = typeof privateKey === 'string' ? parseSshPrivateKey(privateKey).fingerprint : '';
  return new FetchError(kind, explain(kind, { url: address.url, host: address.host, projectId, fingerprint }));
}

class RedirectedError extends FetchError {}

/**
 * Calls `work` with the repository over SSH or HTTPS. A request with a credential follows no redirect. Some forges
 * redirect from a name without `.git`, so that address is tried as well.
 */
export async function reach<T>(
  deps: Pick<GitDeps, 'connections' | 'longestSilenceMs' | 'checkoutBytes'>,
  source: Source,
  work: (remote: Remote) => Promise<T>,
): Promise<T> {
  const { address } = source;
  if (address.scheme === 'ssh') return connected(deps, source, (ssh, known) => work(sshRemote(deps, known, ssh)));
  try {
    return await work(await httpsRemote(deps, source));
  } catch (error) {
    if (!(error instanceof RedirectedError) || /\.git\/*$/.test(address.url)) throw error;
    const url = `${address.url.replace(/\/+$/, '')}.git`;
    return work(await httpsRemote(deps, { ...source, address: { ...address, url } }));
  }
}

export function sshRemote(
  { longestSilenceMs }: Pick<GitDeps, 'longestSilenceMs'>,
  source: Source,
  ssh: readonly string[],
): Remote {
  const { narrator, signal } = source;
  const { url, path } = source.address;
  const destination = destinationOf(source.address);
  return {
    url,
    way: (...services) => ({
      services: Object.fromEntries(
        services.map((service): [Service, OpenChannel] => [
          service,
          (socket, hear) => openSshChannel(socket, { ssh, destination, path }, service, hear),
        ]),
      ),
    }),
    narrator,
    signal,
    failure: (kind) => reason(source, kind),
    explain: ({ stderr, ssh: heard }) => {
      const kind = recognize(stderr, heard);
      return kind && reason(source, kind);
    },
    longestSilenceMs,
  };
}

/** Calls `work` with the arguments of an ssh that is connected with the project's key. */
export async function connected<T>(
  { connections }: Pick<GitDeps, 'connections'>,
  source: Source,
  work: (ssh: readonly string[], known: Source) => Promise<T>,
): Promise<T> {
  const privateKey = typeof source.privateKey === 'string' ? source.privateKey : await source.privateKey();
  const known = { ...source, privateKey };
  const { address, home } = source;
  const isNamed = destinationOf(address) !== destinationOf(home) || address.port !== home.port;
  return connections.use({ ...known, isNamed }, (ssh) => work(ssh, known));
}

async function httpsRemote(
  { longestSilenceMs, checkoutBytes: bytes }: Pick<GitDeps, 'longestSilenceMs' | 'checkoutBytes'>,
  source: Source,
): Promise<Remote> {
  const { address, narrator, signal } = source;
  const credential = await credentialOf(source);
  return {
    url: address.url,
    way: () => ({ https: { bytes, only: hostAndPort(address), ...(credential && { credential }) } }),
    narrator,
    signal,
    longestSilenceMs,
    failure: (kind) => reason(source, kind),
    explain: ({ stderr, troubles }) => {
      const kind = recognize(stderr);
      if (kind === 'malformed_repository' || kind === 'commit_withheld') return reason(source, kind);
      const output = stderr.toString();
      if (blamesItself(output) && !containsAny(output, [notObtained])) return undefined;
      const unavailable = whyUnavailable(output, troubles, credential && 'the token of its forge');
      return source.isNamed
        ? submoduleUnavailable(unavailable)
        : ownUnavailable(address, unavailable, credential !== undefined);
    },
  };
}

export async function credentialOf({ address, credential }: Source): Promise<Opener | undefined> {
  const known = await (typeof credential === 'function' ? credential() : credential);
  return known && { ...known, url: address.url };
}

/** A checkout reports it in its own sentence. */
function submoduleUnavailable({ why, isLasting }: Unavailable): FetchError {
  return new FetchError(isLasting ? 'not_public' : 'host_unreachable', why);
}

function ownUnavailable(
  { url, host, path }: GitAddress,
  { why, isLasting, isRefused, isRedirect }: Unavailable,
  hasToken: boolean,
): FetchError {
  if (isRedirect && hasToken)
    return new RedirectedError(
      'not_public',
      `The repository ${url} cannot be fetched: it redirects, and the token of its forge is only sent to its own address. ` +
        'Enter its present address.',
    );
  const kind = isRefused ? 'repository_not_found' : isLasting ? 'not_public' : 'host_unreachable';
  const byHand =
    `If the repository is private, connect its forge, or enter its SSH address, such as ` +
    `git@${host}:${path.slice(1)}, and install the key of the project there.`;
  const byToken = 'If the repository is there, replace the token of the forge with one that may read it.';
  const help = isRefused ? ` Check the address. ${hasToken ? byToken : byHand}` : '';
  return new FetchError(kind, `The repository ${url} cannot be fetched: ${why}.${help}`);
}
