import { symlink } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { destinationOf, type GitAddress } from '../../shared/domain/git-address.ts';
import { orAborted } from '../../shared/lib/or-aborted.ts';
import { parseSshPrivateKey, type SshPrivateKey } from '../../shared/lib/ssh-private-key.ts';
import { startConnection, type Connection, type ConnectionSettings } from './connection.ts';
import { explain, FetchError, recognize } from './failures.ts';
import type { LogWriter } from './narrator.ts';
import { MasterError } from './ssh-master.ts';

/*
 * Shared SSH connections, because the handshake is the most expensive part of a small fetch. One ssh process (the
 * master) connects and authenticates, and git's ssh processes use it. A master belongs to one project, key and
 * destination: the host takes all its users for the holder of the key.
 *
 *   first use     opens a key agent here until the master is connected
 *   further uses  join the master, also while it is still connecting; all get its output
 *   `connectionMs` after its start no process joins, and it ends when it is unused: a key that was removed at the host
 *                 must not keep access through this master
 *   polls         have masters of their own, which live longer and serve only polls: during that time, a removed key
 *                 still lists names and SHAs, and reads no commits
 *   master dies   a process that joined late and fails because of it retries once, over a new master
 *   runner dies   the kernel ends the master
 */

export interface ConnectionOptions extends Omit<ConnectionSettings, 'knownHosts' | 'defaults'> {
  dir: string;
  folder: string;
}

export interface ConnectionRequest {
  projectId: string;
  address: GitAddress;
  privateKey: string;
  narrator: LogWriter;
  signal: AbortSignal;
  /** Whether a repository's content names the host. Then the host's address is checked. */
  isNamed?: boolean;
  /** For polls. How long the connection stays open for the next one. */
  poll?: { keepMs: number } | undefined;
}

type Named = Pick<ConnectionRequest, 'projectId' | 'address' | 'isNamed' | 'poll'>;
type Work<T> = (ssh: readonly string[]) => Promise<T>;

const forPolls = {
  connectionMs: 15 * 60 * 1000,
  // A key exchange at a tenth of the cost: polls are frequent, and recordings of their traffic are worth little.
  defaults: ['KexAlgorithms -sntrup761*', 'ServerAliveInterval 60'],
};

export interface Connections {
  use<T>(request: ConnectionRequest, work: Work<T>): Promise<T>;
  count(): number;
  isOpen(request: Named & Pick<ConnectionRequest, 'privateKey'>): boolean;
  close(): Promise<void>;
}

export async function openConnections(options: ConnectionOptions): Promise<Connections> {
  const { folder } = options;
  const knownHosts = join(folder, 'known_hosts'); // a link, because ssh's parser cannot handle a blank in the real path
  await symlink(join(resolve(options.dir), 'known_hosts'), knownHosts);
  const connections = new Map<string, Connection>();
  let count = 0;

  function startFor(request: ConnectionRequest, key: SshPrivateKey, name: string): Connection {
    const files = join(folder, `connection-${++count}`);
    const place = { files, address: request.address, isNamed: request.isNamed ?? false, key };
    const settings = { ...options, ...(request.poll && forPolls), knownHosts };
    const connection = startConnection(settings, place, () => {
      if (connections.get(name) === connection) connections.delete(name);
    });
    connections.set(name, connection);
    return connection;
  }

  const find = (name: string): Connection | undefined => {
    const open = connections.get(name);
    return open !== undefined && performance.now() < open.joinableUntil ? open : undefined;
  };

  async function use<T>(request: ConnectionRequest, work: Work<T>, again = true): Promise<T> {
    const key = parseSshPrivateKey(request.privateKey);
    const { narrator, signal, address, poll } = request;
    const name = nameOf(request, key);
    const joined = find(name);
    const connection = joined ?? startFor(request, key, name);
    clearTimeout(connection.ending);
    connection.users.add(narrator);
    let joinableUntil = 0; // after a failure, the connection may be the cause, so the next one is new
    try {
      if (connection.isConnecting()) await orAborted(narrator.output(connection.output.bytes()), signal);
      await orAborted(connection.ready, signal);
      const result = await work(connection.ssh);
      joinableUntil = connection.joinableUntil;
      return result;
    } catch (error) {
      if (joined !== undefined && again && !signal.aborted && mayBeTheConnection(error)) {
        connection.retire();
        narrator.line('The open connection was lost. Reconnecting.');
        return await use(request, work, false);
      }
      if (!(error instanceof MasterError)) throw error;
      const kind = recognize('', error.output) ?? 'host_unreachable';
      const { projectId } = request;
      const { fingerprint } = key;
      throw new FetchError(kind, explain(kind, { url: address.url, host: address.host, projectId, fingerprint }));
    } finally {
      connection.users.delete(narrator);
      if (connection.users.size === 0) {
        const left = Math.min(poll?.keepMs ?? Infinity, Math.max(0, joinableUntil - performance.now()));
        connection.ending = setTimeout(() => void connection.end(), left).unref();
      }
    }
  }

  return {
    use: (request, work) => use(request, work),
    count: () => connections.size,
    isOpen: (request) => find(nameOf(request, parseSshPrivateKey(request.privateKey))) !== undefined,
    close: async () => {
      await Promise.all(Array.from(connections.values(), (connection) => connection.end()));
    },
  };
}

/** Hosts that a repository's content names have connections of their own. */
function nameOf({ projectId, address, isNamed = false, poll }: Named, key: SshPrivateKey): string {
  return [projectId, destinationOf(address), address.port, isNamed, poll !== undefined, key.publicKey].join('\n');
}

/** Whether a dead shared connection can be the cause of the failure. */
function mayBeTheConnection(error: unknown): boolean {
  const kinds = ['connection_lost', 'remote_failed', 'host_unreachable'];
  return error instanceof FetchError && kinds.includes(error.kind);
}
