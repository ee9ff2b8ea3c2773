import { chmod, mkdir, rm, writeFile } from 'node:fs/promises';
import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { createSecureContext } from 'node:tls';
import { createTlsTrust, type TlsTrust } from '../../shared/lib/tls-trust.ts';
import { openFilteringProxy, type FilteringProxyOptions, type ProxyTrouble } from '../filtering-proxy.ts';
import type { Way } from './channel.ts';
import { largeFileCalls } from './large-file-calls.ts';
import type { OpenSession } from './session.ts';

/*
 * What a session reaches outside of its sandbox: a folder of sockets that the runner listens on, which the session sees
 * and cannot change.
 *
 *   runner            session.pl takes requests from it
 *   git-upload-pack…  one for each command of the remote that this session may run there
 *   proxy             leads to addresses that may be called over HTTPS, in sessions that need that
 */
export interface Doors {
  /** What went wrong with connections over HTTPS so far. */
  readonly troubles: readonly ProxyTrouble[];
  close(): Promise<void>;
}

export interface DoorsOptions {
  way: Way | undefined;
  /** Which addresses may be called, and how long they may take. */
  proxy: Pick<FilteringProxyOptions, 'rules' | 'connectMs' | 'silenceMs'>;
  /** The authorities that are trusted, where these are not the machine's own. */
  authorities: string | undefined;
  signal: AbortSignal;
  session: Pick<OpenSession, 'attach' | 'join'>;
}

export const runnerSocket = 'runner';
export const authoritiesFile = 'authorities.pem';

/** Makes the folder; its path must be short, because that of a socket may have 107 bytes. */
export async function openDoors(folder: string, options: DoorsOptions): Promise<Doors> {
  const { way, proxy, authorities, signal, session } = options;
  const opened = new AsyncDisposableStack();
  // Remains are removed with the parent folder.
  opened.defer(() => rm(folder, { recursive: true, force: true }).catch(() => {}));
  const listen = async (name: string, onConnection: (socket: Socket) => void): Promise<void> => {
    // A connection is handed over unread: another process may read it.
    const server = createServer({ pauseOnConnect: true }, onConnection);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    server.once('error', reject).listen(join(folder, name), resolve);
    await promise;
    opened.defer(() => void server.close());
    await chmod(join(folder, name), 0o666); // only its sandbox can reach it
  };
  try {
    await mkdir(folder, { mode: 0o755 });
    await listen(runnerSocket, (socket) => session.attach(socket));
    for (const [service, open] of Object.entries(way?.services ?? {}))
      await listen(service, (socket) => session.join(socket, open));
    if (way?.https === undefined) return { troubles: [], close: () => opened.disposeAsync() };
    if (authorities !== undefined) await writeFile(join(folder, authoritiesFile), authorities);
    const { bytes: mostBytes, only, largeFiles } = way.https;
    const answer = largeFiles && largeFileCalls(largeFiles, { ...proxy.rules, trust: trustIn(authorities) }, signal);
    const addressFilter = await openFilteringProxy({ ...proxy, folder, mostBytes, only, answer, signal });
    opened.defer(() => addressFilter.close());
    return { troubles: addressFilter.troubles, close: () => opened.disposeAsync() };
  } catch (error) {
    await opened.disposeAsync();
    throw error;
  }
}

function trustIn(authorities: string | undefined): Pick<TlsTrust, 'context'> {
  return authorities === undefined ? createTlsTrust() : { context: () => createSecureContext({ ca: authorities }) };
}
