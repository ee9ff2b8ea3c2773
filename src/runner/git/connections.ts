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
 * SSH connections, shared while they last.
 *
 * The handshake is by far the most expensive part of a small fetch. So one ssh process connects and authenticates (the
 * master), and git's own ssh processes use it. A master belongs to one project, one key and one destination, because
 * the host takes all its users for the holder of that key.
 *
 *   first use     opens a key agent in this process and starts the master; when the master is connected, the agent is
 *                 closed with the key, because later uses do not need it
 *   further uses  join the master, also while it is still connecting; all get its output
 *   `connectionMs` after its start no process joins any more, and it is ended when it is unused: a key that was removed
 *                 at the host must not keep access through this master
 *   master dies   a process that joined late and fails because of it tries once more, over a new master
 *   runner dies   the kernel ends the master (git ends with its sandbox)
 */

export interface ConnectionOptions extends Omit<ConnectionSettings, 'knownHosts'> {
  /** The folder of the known host keys. */
  dir: string;
  /** For sockets and their files; see run-folder.ts. */
  folder: string;
}

export interface ConnectionRequest {
  projectId: string;
  address: GitAddress;
  privateKey: string;
  narrator: LogWriter;
  signal: AbortSignal;
  /** The content of a repository names the host, which has to have an address that may be called. */
  isNamed?: boolean;
  /** How long it stays open for the next use, where that is shorter than usual. */
  keepMs?: number;
}

/** The use of a connected ssh: gets its arguments. */
type Work<T> = (ssh: readonly string[]) => Promise<T>;

export interface Connections {
  /** Calls `work` with the arguments of a connected ssh. */
  use<T>(request: ConnectionRequest, work: Work<T>): Promise<T>;
  /** How many connections are open or being opened. */
  count(): number;
  /** Whether the next use would join an open connection. */
  isOpen(request: Pick<ConnectionRequest, 'projectId' | 'address' | 'privateKey' | 'isNamed'>): boolean;
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
    const connection = startConnection({ ...options, knownHosts }, place, () => {
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
    const { narrator, signal, address, keepMs = Infinity } = request;
    const name = nameOf(request, key);
    const joined = find(name);
    const connection = joined ?? startFor(request, key, name);
    clearTimeout(connection.ending);
    connection.users.add(narrator);
    let joinableUntil = 0; // after a failure the connection may be the cause; the next one is new
    try {
      if (connection.isConnecting()) await orAborted(narrator.output(connection.output.bytes()), signal);
      await orAborted(connection.ready, signal);
      const result = await work(connection.ssh);
      joinableUntil = connection.joinableUntil;
      return result;
    } catch (error) {
      if (joined !== undefined && again && !signal.aborted && mayBeTheConnection(error)) {
        connection.retire();
        narrator.line('The connection that was open is gone. Connecting anew.');
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
        const left = Math.min(keepMs, Math.max(0, joinableUntil - performance.now()));
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

/** A connection belongs to one project, one key and one host; hosts that repositories name have their own. */
function nameOf(
  { projectId, address, isNamed = false }: Pick<ConnectionRequest, 'projectId' | 'address' | 'isNamed'>,
  key: SshPrivateKey,
): string {
  return [projectId, destinationOf(address), address.port, isNamed, key.publicKey].join('\n');
}

/** Failures that look the same when only the shared connection has died. */
function mayBeTheConnection(error: unknown): boolean {
  const kinds = ['connection_lost', 'remote_failed', 'host_unreachable'];
  return error instanceof FetchError && kinds.includes(error.kind);
}
