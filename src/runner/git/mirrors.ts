import { mkdir } from 'node:fs/promises';
import { totalmem } from 'node:os';
import { resolve } from 'node:path';
import type { DiskReserve } from '../../shared/lib/disk-reserve.ts';
import type { Sandboxes } from '../sandbox/types.ts';
import { mostOpenFiles } from '../../shared/lib/descriptors.ts';
import { createLimiter } from '../../shared/lib/limiter.ts';
import { outsideAddressFilter, publicAddressFilter, type AddressRules } from '../../shared/lib/address-filter.ts';
import { createResolve } from '../../shared/lib/resolve.ts';
import { checkout, type CheckoutRequest, type Misses } from './checkout.ts';
import { collect, forget, projectsIn, type Collected } from './collect.ts';
import { openConnections } from './connections.ts';
import { difference, type Difference, type DifferenceRequest } from './difference.ts';
import { fetch, type FetchedCommit, type FetchRequest } from './fetch.ts';
import { listRefs, type Listed, type ListRequest } from './list-refs.ts';
import { checkAccess, type Access } from './check-access.ts';
import type { UnloggedRequest } from './without-log.ts';
import type { GitDeps } from './sources.ts';
import { push, type PushOutcome, type PushRequest } from './push.ts';
import { openRunFolder } from './run-folder.ts';
import { openSessions } from './sessions.ts';
import { openTreeFacts, type TreeFacts } from './tree-facts.ts';

export interface MirrorsOptions {
  /** For mirrors, known host keys and sockets. Several processes may share it. */
  dir: string;
  /** For git; they have no network. */
  sandboxes: Sandboxes;
  isolation?: 'required' | 'off';
  /** HEADRACE_SSH_CONFIG: an OpenSSH client configuration for every connection. */
  sshConfig?: string | undefined;
  /** Time limit for ssh to connect and authenticate; a route over jump hosts gets three times that. */
  connectSeconds?: number;
  /** How long a connection is reused, and so how long a removed key may still work. */
  connectionMs?: number;
  /** How long a host may be silent during a transfer. */
  longestSilenceMs?: number;
  /** HEADRACE_FETCH_TIMEOUT, for a fetch or a checkout. */
  timeoutMs?: number;
  /** HEADRACE_CHECKOUT_SIZE. */
  checkoutBytes?: number;
  memoryBytes?: number;
  /** Private ranges that addresses in repositories may lead to over SSH. */
  allowedAddresses?: readonly string[];
  /** HEADRACE_GIT_ALLOW: private ranges, and addresses of this machine, that may be reached over HTTPS. */
  gitAllow?: readonly string[];
  authorities?: string | undefined;
  rules?: Partial<AddressRules>;
  /** Fetched data leaves its reserve free. */
  disk?: Pick<DiskReserve, 'room'>;
  log?: (message: string) => void;
}

export interface Mirrors extends TreeFacts {
  /** Throws FetchError for a problem that the user can fix. So do the other calls that connect. */
  fetch(request: FetchRequest): Promise<FetchedCommit>;
  /** Makes a work tree of a commit, fetched if needed, and returns what the tree lacks. */
  checkout(request: CheckoutRequest): Promise<Misses>;
  /** Undefined if this runner does not have both commits. */
  difference(request: DifferenceRequest): Promise<Difference | undefined>;
  /** Stores nothing of the repository. */
  checkAccess(request: UnloggedRequest): Promise<Access>;
  /** Lists branches and tags over a connection that stays open. */
  listRefs(request: ListRequest): Promise<Listed>;
  /** Never forces the push. */
  push(request: PushRequest): Promise<PushOutcome>;
  projects(): Promise<string[]>;
  /** Removes a project's stored data. Data in use stays until the next call. */
  forget(projectId: string): Promise<void>;
  /** Removes mirrors that were unused for this long (default: 30 days). */
  collect(unusedForMs?: number, signal?: AbortSignal): Promise<Collected>;
  /** Cancel running work first. */
  close(): Promise<void>;
}

/** The memory for a poll's connection, which stays open. */
const connectionBytes = 3 * 1024 ** 2;
const mostKept = 2000;
/** Limits on polls at one host: running, and connecting. An sshd refuses too many. */
const mostAtHost = 16;
const mostConnecting = 4;

const month = 30 * 24 * 3600 * 1000;
const gibibyte = 1024 ** 3;

/** git starts a few processes, some with one thread per core. */
const mostProcesses = 256;

export async function openMirrors(options: MirrorsOptions): Promise<Mirrors> {
  const { sandboxes, isolation = 'required', sshConfig, log = () => {} } = options;
  const { connectSeconds = 15, connectionMs = 20_000, longestSilenceMs = 600_000 } = options;
  const { timeoutMs = 900_000, checkoutBytes = 20 * gibibyte } = options;
  const { memoryBytes = Math.min(2 * gibibyte, Math.floor(totalmem() / 2)) } = options;
  const dir = resolve(options.dir);
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const run = await openRunFolder(dir, log);
  const mayCallNamed = outsideAddressFilter(options.allowedAddresses ?? []);
  const rules = { mayCall: mayCallNamed, resolve: createResolve(), ...options.rules };
  const httpsRules = { ...rules, mayCall: options.rules?.mayCall ?? publicAddressFilter(options.gitAllow ?? []) };
  const connections = await openConnections({ dir, folder: run.path, sshConfig, connectSeconds, connectionMs, rules });
  const limits = { memoryBytes, processes: mostProcesses, timeoutMs };
  const connectMs = connectSeconds * 1000;
  const sessions = openSessions({
    sandboxes,
    isolation,
    folder: run.path,
    limits,
    proxy: { rules: httpsRules, connectMs, silenceMs: 4 * connectMs },
    authorities: options.authorities,
    disk: options.disk,
  });
  const deps: GitDeps = { dir, connections, sessions, longestSilenceMs, timeoutMs, checkoutBytes };
  const polling = {
    ...deps,
    asking: createLimiter(mostAtHost),
    connecting: createLimiter(mostConnecting),
    mostOpen: Math.min(mostKept, Math.floor(totalmem() / 8 / connectionBytes), Math.floor(mostOpenFiles() / 4)),
  };
  return {
    ...openTreeFacts(deps),
    fetch: (request) => fetch(deps, request),
    checkout: (request) => checkout(deps, request),
    difference: (request) => difference(deps, request),
    checkAccess: (request) => checkAccess(deps, request),
    listRefs: (request) => listRefs(polling, request),
    push: (request) => push(deps, request),
    projects: () => projectsIn(dir),
    forget: (projectId) => forget(dir, projectId),
    collect: (unusedForMs = month, signal) => collect({ dir, sessions, log }, unusedForMs, signal),
    close: async () => {
      await Promise.all([connections.close(), sessions.close()]);
      await run.remove();
    },
  };
}
