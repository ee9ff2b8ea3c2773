import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { destinationOf, hostAndPort, parseGitAddress, type GitAddress } from '../../domain/git-address.ts';
import { pathExists } from '../../lib/path-exists.ts';
import { parseSshPrivateKey } from '../../lib/ssh-private-key.ts';
import type { HttpsCredential } from '../../protocol/index.ts';
import type { HttpsWay, OpenChannel, Service } from './channel.ts';
import { descends, isAmbiguous, findCandidates, type Found } from './commits.ts';
import type { Connections } from './connections.ts';
import { blamesItself, explain, FetchError, recognize, tooSlow, type RemoteFailure } from './failures.ts';
import { GitError } from './git.ts';
import { fetchSpecial, mirrorAt, noteUse, rebuild, update, whileLocked, writeTo } from './mirror.ts';
import type { Mirror, Remote } from './mirror.ts';
import { presentBranches } from './present-branches.ts';
import { logWriter, type LogWriter, type WriteLog } from './narrator.ts';
import { notObtained, whyUnavailable, type Unavailable } from './public-failures.ts';
import { isBranchOrTag, type WantedRef } from './refs.ts';
import type { Session } from './session.ts';
import type { Sessions } from './sessions.ts';
import { openSshChannel } from './ssh-channel.ts';
import { containsAny } from './phrases.ts';

/** The services for all work on mirrors. */
export interface GitServices {
  dir: string;
  connections: Connections;
  sessions: Sessions;
  longestSilenceMs: number;
  /** How long a fetch or a checkout may take in total. */
  timeoutMs: number;
  /** How large a checkout may be. */
  checkoutBytes: number;
}

/**
 * The key itself, in OpenSSH's format and without a passphrase; or a function that gets it when a connection needs it.
 */
export type KeySource = string | (() => Promise<string>);

/** The same for what opens the project's own repository over HTTPS; none where anybody may read it. */
export type CredentialSource = HttpsCredential | (() => Promise<HttpsCredential | undefined>);

/** A project's repository, or a submodule of it. */
export interface Source {
  projectId: string;
  address: GitAddress;
  /** That of the project's own repository, which its people entered. */
  home: GitAddress;
  /** The wanted commit comes from a fork: a stranger chose everything in it. */
  isFork: boolean;
  privateKey: KeySource;
  credential?: CredentialSource | undefined;
  narrator: LogWriter;
  signal: AbortSignal;
}

export interface SourceRequest {
  projectId: string;
  /** As domain/git-address.ts reads it. */
  repositoryUrl: string;
  privateKey: KeySource;
  credential?: CredentialSource | undefined;
  /** Where this is not known, the commit counts as a fork's. */
  isFork?: boolean;
  /** Takes the log as it grows. */
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
  return { projectId, address, home: address, isFork, privateKey, credential, narrator, signal };
}

/**
 * A project whose address changes gets another mirror, so that nothing of the old repository is found in the new one.
 */
export function mirrorOf(services: GitServices, source: Source): Mirror {
  const name = createHash('sha256').update(source.address.url).digest('hex').slice(0, 16);
  return mirrorAt(join(services.dir, 'mirrors', source.projectId, name));
}

/** The failure of a source, in words. If no connection was opened, the key is neither known nor relevant. */
export function reason({ projectId, address, privateKey }: Source, kind: RemoteFailure): FetchError {
  const fingerprint = typeof privateKey === 'string' ? parseSshPrivateKey(privateKey).fingerprint : '';
  return new FetchError(kind, explain(kind, { url: address.url, host: address.host, projectId, fingerprint }));
}

/** Calls `work` with a connection to the source. */
export async function reach<T>(
  services: GitServices,
  source: Source,
  work: (remote: Remote) => Promise<T>,
): Promise<T> {
  if (source.address.scheme === 'https') return work(await httpsRemote(services, source, services.checkoutBytes));
  return connected(services, source, (ssh, known) => work(sshRemote(services, known, ssh)));
}

/** A repository over a connection. */
export function sshRemote(
  { longestSilenceMs }: Pick<GitServices, 'longestSilenceMs'>,
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
  { connections }: GitServices,
  source: Source,
  work: (ssh: readonly string[], known: Source) => Promise<T>,
): Promise<T> {
  const privateKey = typeof source.privateKey === 'string' ? source.privateKey : await source.privateKey();
  const known = { ...source, privateKey };
  const { address, home } = source;
  const isNamed = destinationOf(address) !== destinationOf(home) || address.port !== home.port;
  return connections.use({ ...known, isNamed }, (ssh) => work(ssh, known));
}

/** A repository over HTTPS. A submodule is fetched as anybody would, whatever opens the project's own. */
export async function httpsRemote(
  { longestSilenceMs }: Pick<GitServices, 'longestSilenceMs'>,
  source: Source,
  bytes: number,
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
      return isOwn(source)
        ? ownUnavailable(address, unavailable, credential !== undefined)
        : submoduleUnavailable(unavailable);
    },
  };
}

const isOwn = ({ address, home }: Source): boolean => address.url === home.url;

/** What opens the project's own repository over HTTPS, and no other: a submodule is named by whoever can push. */
export async function credentialOf(source: Source): Promise<HttpsWay['credential']> {
  const { address, credential } = source;
  const known = isOwn(source) ? await (typeof credential === 'function' ? credential() : credential) : undefined;
  return known && { ...known, url: address.url };
}

/** A checkout tells it in a sentence of its own. */
function submoduleUnavailable({ why, isLasting }: Unavailable): FetchError {
  return new FetchError(isLasting ? 'not_public' : 'host_unreachable', why);
}

function ownUnavailable(
  { url, host, path }: GitAddress,
  { why, isLasting, isRefused }: Unavailable,
  hasToken: boolean,
): FetchError {
  const kind = isRefused ? 'repository_not_found' : isLasting ? 'not_public' : 'host_unreachable';
  const byHand =
    `If the repository is private, connect its forge, or enter the address that it has over SSH, such as ` +
    `git@${host}:${path.slice(1)}, and install the key of the project there.`;
  const byToken = 'If the repository is there, replace the token of the forge with one that may read it.';
  const help = isRefused ? ` Check the address. ${hasToken ? byToken : byHand}` : '';
  return new FetchError(kind, `The repository ${url} cannot be fetched: ${why}.${help}`);
}

/** Uses a commit in the session that found it. */
export type Use<T> = (session: Session, found: Found) => Promise<T>;

/**
 * Finds the wanted commit. A full SHA that the mirror has needs no connection; everything else asks the remote for its
 * current branches and tags, once. A damaged mirror is a GitError, which `withRepair` handles.
 */
export async function obtain<T>(services: GitServices, source: Source, wanted: WantedRef, use: Use<T>): Promise<T> {
  const mirror = mirrorOf(services, source);
  const { narrator, signal } = source;
  if (wanted.fullSha !== undefined) {
    const known = await ifKnown(services, mirror, signal, wanted, use);
    if (known !== undefined) {
      await noteUse(mirror);
      return known.result;
    }
  }
  return whileLocked(mirror, narrator, signal, async () => {
    await noteUse(mirror);
    // Only now, because the connection would get old while this waits for the lock.
    return reach(services, source, (remote) =>
      writeTo(
        services.sessions,
        mirror,
        { signal, way: remote.way('git-upload-pack') },
        (session) => bring(session, remote, source, wanted),
        use,
      ),
    );
  });
}

/** Updates the mirror, and finds the wanted commit in it. */
async function bring(session: Session, remote: Remote, source: Source, wanted: WantedRef): Promise<Found> {
  await update(session, remote);
  let found = wanted.special === undefined ? await findCandidates(session, wanted.candidates) : [];
  for (const special of specialsOf(wanted)) {
    if (found.length > 0) break;
    if (await fetchSpecial(session, remote, special)) found = await findCandidates(session, wanted.candidates);
  }
  const chosen = choose(wanted, found) ?? raise(await notFound(session, wanted, source));
  if (!(await isLedTo(session, wanted, chosen.sha))) {
    source.narrator.line(
      `${quoted(wanted.by ?? '')} does not lead to this commit any more: it was moved or deleted since.`,
    );
  }
  return chosen;
}

/**
 * The refs to request besides branches and tags while the commit is missing: the ref that reaches it, then the commit.
 */
function specialsOf({ special, by, fullSha }: WantedRef): string[] {
  const ref = special ?? (by !== undefined && !isBranchOrTag(by) ? by : undefined);
  return [ref, special === undefined ? fullSha : undefined].filter((what) => what !== undefined);
}

/** Whether the branch or tag that came with a commit reaches it, as far as the mirror knows. */
async function isLedTo(session: Session, { by }: WantedRef, sha: string): Promise<boolean> {
  if (by === undefined || !isBranchOrTag(by)) return true;
  const [tip] = await findCandidates(session, [{ kind: 'other', name: by }]);
  return tip !== undefined && (await descends(session, tip.sha, sha));
}

async function ifKnown<T>(
  { sessions }: GitServices,
  mirror: Mirror,
  signal: AbortSignal,
  wanted: WantedRef,
  use: Use<T>,
): Promise<{ result: T } | undefined> {
  if (!(await pathExists(mirror.gitDir, 'directory'))) return undefined;
  return sessions.use({ directory: mirror.gitDir, access: 'read', signal }, async (session) => {
    const findPresent = async (): Promise<Found | undefined> => {
      const [found] = await findCandidates(session, wanted.candidates);
      return found !== undefined && (await isLedTo(session, wanted, found.sha)) ? found : undefined;
    };
    const found = await findPresent().catch((error: unknown) => {
      if (error instanceof GitError) return undefined; // the following fetch handles the damage
      throw error;
    });
    return found === undefined ? undefined : { result: await use(session, found) };
  });
}

/** Names come before abbreviations, as in git; but a name for two different commits is ambiguous. */
function choose(wanted: WantedRef, found: readonly Found[]): Found | undefined {
  const [first, second] = found.filter(({ candidate }) => candidate.kind !== 'sha');
  if (first !== undefined && second !== undefined && first.sha !== second.sha) {
    throw new FetchError(
      'ambiguous_ref',
      `${quoted(wanted.asked)} is a branch and also a tag, of different commits. ` +
        `Ask for ${second.candidate.name} or ${first.candidate.name} instead.`,
    );
  }
  return first ?? found[0];
}

async function notFound(session: Session, wanted: WantedRef, source: Source): Promise<FetchError> {
  if (wanted.fullSha === undefined && (await isAmbiguous(session, wanted.candidates))) {
    return new FetchError('ambiguous_ref', `Several commits start with ${quoted(wanted.asked)}. Give more of the SHA.`);
  }
  if (wanted.by !== undefined) {
    return new FetchError(
      'ref_not_found',
      `The commit ${wanted.asked} is not in ${source.address.url} any more, and ${quoted(wanted.by)} does not lead to it: ` +
        'it was overwritten or deleted since. What it points to now has a request of its own, or is built when it is asked for.',
    );
  }
  const what = wanted.special !== undefined ? 'ref' : wanted.fullSha === undefined ? 'branch, tag or commit' : 'commit';
  return new FetchError(
    'ref_not_found',
    `There is no ${what} ${quoted(wanted.asked)} in ${source.address.url}. Check the spelling, and that it was pushed.${await presentBranches(session)}`,
  );
}

function raise(error: Error): never {
  throw error;
}

export function quoted(text: string): string {
  return `“${text}”`;
}

/** Runs `work`; if the mirror is damaged, fetches all of it again and runs `work` once more. */
export async function withRepair<T>(services: GitServices, source: Source, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof GitError && error.mayBeDamage)) throw error;
  }
  const mirror = mirrorOf(services, source);
  const { narrator, signal } = source;
  await whileLocked(mirror, narrator, signal, () =>
    reach(services, source, (remote) => rebuild(services.sessions, mirror, remote)),
  );
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof GitError && error.mayBeDamage)) throw error;
    // The remote has the same data.
    narrator.line(error.output);
    throw reason(source, 'malformed_repository');
  }
}

/** A failure that a person can fix is written to the log before it is thrown. */
export async function reportingTrouble<T>(writeLog: WriteLog, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof FetchError) logWriter(writeLog).line(error.message);
    throw error;
  }
}

/** Runs `work` with a signal that is aborted after the timeout, with a reason in words. */
export async function inTime<T>(
  { timeoutMs }: GitServices,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(new FetchError('fetch_timed_out', tooSlow(timeoutMs))), timeoutMs);
  try {
    return await work(AbortSignal.any([signal, late.signal]));
  } finally {
    clearTimeout(timer);
  }
}
