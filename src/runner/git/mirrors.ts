import { mkdir } from 'node:fs/promises';
import { totalmem } from 'node:os';
import { join, resolve } from 'node:path';
import type { DiskReserve } from '../../shared/lib/disk-reserve.ts';
import type { Sandboxes } from '../sandbox/types.ts';
import { mostOpenFiles } from '../../shared/lib/descriptors.ts';
import { createLimiter } from '../../shared/lib/limiter.ts';
import { outsideAddressFilter, publicAddressFilter, type AddressRules } from '../../shared/lib/address-filter.ts';
import { createResolve } from '../../shared/lib/resolve.ts';
import { checkout, type CheckoutRequest, type Misses } from './checkout.ts';
import { collect, forget, type Collected } from './collect.ts';
import { commitCache } from './commit-cache.ts';
import { openConnections } from './connections.ts';
import { difference, type Difference, type DifferenceRequest } from './difference.ts';
import { fetch, type FetchedCommit, type FetchRequest } from './fetch.ts';
import { listRefs, type Listed, type ListRequest } from './list-refs.ts';
import { checkAccess, type Access } from './check-access.ts';
import type { UnloggedRequest } from './without-log.ts';
import { namesIn } from './mirror.ts';
import type { GitServices } from './sources.ts';
import { push, type PushOutcome, type PushRequest } from './push.ts';
import { openRunFolder } from './run-folder.ts';
import { openSessions } from './sessions.ts';

export interface MirrorsOptions {
  /** The runner's folder for mirrors, known host keys and sockets. Several processes may share it. */
  dir: string;
  /** The sandboxes for git, which have no network. */
  sandboxes: Sandboxes;
  /** The isolation of those sandboxes. */
  isolation?: 'required' | 'off';
  /** HEADRACE_SSH_CONFIG: an OpenSSH client configuration for every connection. */
  sshConfig?: string | undefined;
  /** How long ssh may take to connect and to authenticate; a route over jump hosts gets three times that. */
  connectSeconds?: number;
  /** How long a connection is reused; a removed key may work that long, and no longer. */
  connectionMs?: number;
  /** How long a host may be silent during a transfer. */
  longestSilenceMs?: number;
  /** HEADRACE_FETCH_TIMEOUT: how long a fetch or a checkout may take. */
  timeoutMs?: number;
  /** HEADRACE_CHECKOUT_SIZE: how large a checkout may be. */
  checkoutBytes?: number;
  /** How much memory git may have for one repository. */
  memoryBytes?: number;
  /** Private ranges that may be called for what repositories name over SSH. */
  allowedAddresses?: readonly string[];
  /** HEADRACE_GIT_ALLOW: private ranges, and addresses of this machine, that may be called over HTTPS. */
  gitAllow?: readonly string[];
  /** The authorities that are trusted for HTTPS, where these are not the machine's own alone. */
  authorities?: string | undefined;
  /** Other rules for addresses. */
  rules?: Partial<AddressRules>;
  /** Fetched data stays above its reserve. */
  disk?: Pick<DiskReserve, 'room'>;
  log?: (message: string) => void;
}

/** Everything the runner does with git. */
export interface Mirrors {
  /** Finds a commit and its metadata. Throws FetchError for a problem that a person can fix. */
  fetch(request: FetchRequest): Promise<FetchedCommit>;
  /**
   * Makes a work tree of a commit, and returns what it lacks. If the commit must be fetched, throws FetchError
   * likewise.
   */
  checkout(request: CheckoutRequest): Promise<Misses>;
  /** What differs between two commits; undefined where this runner does not have both. */
  difference(request: DifferenceRequest): Promise<Difference | undefined>;
  /** Checks a repository without keeping any of it. Throws FetchError likewise. */
  checkAccess(request: UnloggedRequest): Promise<Access>;
  /** Lists the branches and tags of a repository, over a connection that is kept. Throws FetchError likewise. */
  listRefs(request: ListRequest): Promise<Listed>;
  /** Pushes a commit to another repository, never by force. */
  push(request: PushRequest): Promise<PushOutcome>;
  /** The projects that have stored data. */
  projects(): Promise<string[]>;
  /** Removes the stored data of a project. Data in use stays until the next time. */
  forget(projectId: string): Promise<void>;
  /** Removes mirrors that were unused for this long (default: 30 days). */
  collect(unusedForMs?: number, signal?: AbortSignal): Promise<Collected>;
  /** Ends all connections. Running work should be cancelled first. */
  close(): Promise<void>;
}

/**
 * Connections for polls are kept between polls, at most this long: until then a key that was removed at the host still
 * reads names and SHAs, but never a commit, which is fetched over a separate connection.
 */
const pollConnectionMs = 15 * 60 * 1000;
/**
 * Uses a key exchange at a tenth of the cost: there are many of these, and a recording of their traffic is worth
 * little.
 */
const pollDefaults = ['KexAlgorithms -sntrup761*', 'ServerAliveInterval 60'];
/** The memory of one connection's ssh. */
const connectionBytes = 3 * 1024 ** 2;
const mostKept = 2000;
/**
 * How many polls run at one host at the same time, and how many of them may be connecting: an sshd refuses too many.
 */
const mostAtHost = 16;
const mostConnecting = 4;

const month = 30 * 24 * 3600 * 1000;
const gibibyte = 1024 ** 3;

/** git starts a few processes, some with as many threads as there are cores. */
const mostProcesses = 256;

export async function openMirrors(options: MirrorsOptions): Promise<Mirrors> {
  const { sandboxes, isolation = 'required', sshConfig, log = () => {} } = options;
  const { connectSeconds = 15, connectionMs = 20_000, longestSilenceMs = 600_000 } = options;
  const { timeoutMs = 900_000, checkoutBytes = 20 * gibibyte } = options;
  const { memoryBytes = Math.min(2 * gibibyte, Math.floor(totalmem() / 2)) } = options;
  const dir = resolve(options.dir);
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const run = await openRunFolder(dir, log);
  const folder = run.path;
  const mayCallNamed = outsideAddressFilter(options.allowedAddresses ?? []);
  const rules = { mayCall: mayCallNamed, resolve: createResolve(), ...options.rules };
  const httpsRules = { ...rules, mayCall: options.rules?.mayCall ?? publicAddressFilter(options.gitAllow ?? []) };
  const connections = await openConnections({ dir, folder, sshConfig, connectSeconds, connectionMs, rules });
  const pollFolder = join(folder, 'polling');
  await mkdir(pollFolder, { mode: 0o700 });
  const limits = { memoryBytes, processes: mostProcesses, timeoutMs };
  const connectMs = connectSeconds * 1000;
  const sessions = openSessions({
    sandboxes,
    isolation,
    folder,
    limits,
    proxy: { rules: httpsRules, connectMs, silenceMs: 4 * connectMs },
    authorities: options.authorities,
    disk: options.disk,
  });
  const polling = {
    sessions,
    longestSilenceMs,
    connections: await openConnections({
      dir,
      folder: pollFolder,
      sshConfig,
      connectSeconds,
      connectionMs: pollConnectionMs,
      defaults: pollDefaults,
      rules,
    }),
    asking: createLimiter(mostAtHost),
    connecting: createLimiter(mostConnecting),
    mostOpen: Math.min(mostKept, Math.floor(totalmem() / 8 / connectionBytes), Math.floor(mostOpenFiles() / 4)),
  };
  const services: GitServices = {
    dir,
    connections,
    sessions,
    longestSilenceMs,
    timeoutMs,
    checkoutBytes,
  };
  const cache = commitCache();
  return {
    fetch: (request) => fetch(services, cache, request),
    checkout: (request) => checkout(services, request),
    difference: (request) => difference(services, request),
    checkAccess: (request) => checkAccess(services, request),
    listRefs: (request) => listRefs(polling, request),
    push: (request) => push(services, request),
    projects: () => namesIn(join(dir, 'mirrors')),
    forget: (projectId) => forget(dir, projectId),
    collect: (unusedForMs = month, signal) => collect({ dir, sessions, log }, unusedForMs, signal),
    close: async () => {
      await Promise.all([connections.close(), polling.connections.close(), sessions.close()]);
      await run.remove();
    },
  };
}
