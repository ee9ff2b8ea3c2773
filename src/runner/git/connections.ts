import { symlink } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { orAborted } from '../../lib/or-aborted.ts';
import { parseSshPrivateKey, type SshPrivateKey } from '../../lib/ssh-private-key.ts';
import { startConnection, type Connection } from './connection.ts';
import { explain, FetchError, recognize } from './failures.ts';
import type { Narrator } from './narrator.ts';
import type { RepositoryAddress } from './repository-url.ts';
import { MasterError } from './ssh-master.ts';

/*
 * SSH connections, shared while they last.
 *
 * The handshake is by far the dearest part of a small fetch. So one ssh process connects and authenticates
 * (the master), and git's own ssh processes go through it. A master belongs to one project, one key and one
 * destination, because whoever goes through it is taken for the holder of that key.
 *
 *   first use     a key agent is opened in this process, the master started; it says when it is through, and the
 *                 agent is closed with the key: nothing that goes through the master later needs it
 *   further uses  join it, also while it is still connecting; all hear what it says
 *   `connectionMs` after its start nobody joins any more, and it is ended when nobody uses it: a key that was taken away
 *                 at the host must not go on opening it through us
 *   it dies       whoever joined it late and fails for it tries once more, over a new one
 *   we die        the kernel ends it (git ends with its sandbox)
 */

export interface ConnectionOptions {
  /** Where the known host keys are. */
  dir: string;
  /** For sockets and what belongs to them; see run-folder.ts. */
  folder: string;
  /** Path of an OpenSSH client configuration that holds for every connection. */
  sshConfig?: string | undefined;
  connectSeconds: number;
  /** How long others may join a connection after its start. */
  connectionMs: number;
  /** What ssh is told beside the rest, unless the operator says otherwise. */
  defaults?: readonly string[];
}

export interface ConnectionRequest {
  projectId: string;
  address: RepositoryAddress;
  privateKey: string;
  narrator: Narrator;
  signal: AbortSignal;
  /** How long it stays open for the next one, where that is shorter than usual. */
  keepMs?: number;
}

/** What is done with an ssh that is connected: its arguments, and its socket. */
type Work<T> = (ssh: readonly string[], socket: string) => Promise<T>;

export interface Connections {
  /** Calls `work` with the arguments of an ssh that is already connected. */
  use<T>(request: ConnectionRequest, work: Work<T>): Promise<T>;
  /** How many are open, or being opened. */
  count(): number;
  /** Whether the next use of it would join one that is open. */
  isOpen(request: Pick<ConnectionRequest, 'projectId' | 'address' | 'privateKey'>): boolean;
  close(): Promise<void>;
}

export async function openConnections(options: ConnectionOptions): Promise<Connections> {
  const { folder } = options;
  const knownHosts = join(folder, 'known_hosts'); // a link, so that no blank in the real path meets ssh's parser
  await symlink(join(resolve(options.dir), 'known_hosts'), knownHosts);
  const connections = new Map<string, Connection>();
  let count = 0;

  function startFor(request: ConnectionRequest, key: SshPrivateKey, name: string): Connection {
    const files = join(folder, `connection-${++count}`);
    const place = { files, destination: request.address.destination, key };
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
    let joinableUntil = 0; // after a failure the connection may be to blame; the next one starts afresh
    try {
      if (connection.isConnecting()) await orAborted(narrator.output(connection.words.bytes()), signal);
      await orAborted(connection.ready, signal);
      const result = await work(connection.ssh, connection.socket);
      joinableUntil = connection.joinableUntil;
      return result;
    } catch (error) {
      if (joined !== undefined && again && !signal.aborted && mayBeTheConnection(error)) {
        connection.retire();
        narrator.line('The connection that was open is gone. Connecting anew.');
        return await use(request, work, false);
      }
      if (!(error instanceof MasterError)) throw error;
      const kind = recognize('', error.said) ?? 'host_unreachable';
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

/** A connection is one project's, with one key, to one host. */
function nameOf({ projectId, address }: Pick<ConnectionRequest, 'projectId' | 'address'>, key: SshPrivateKey): string {
  return [projectId, address.destination, key.publicKey].join('\n');
}

/** Failures that also look like this when only the shared connection has died. */
function mayBeTheConnection(error: unknown): boolean {
  const kinds = ['connection_lost', 'remote_failed', 'host_unreachable'];
  return error instanceof FetchError && kinds.includes(error.kind);
}
