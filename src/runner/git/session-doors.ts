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
 * A session's ways out of its sandbox: a folder of the runner's sockets, which the session sees and cannot change.
 *
 *   runner            session.pl takes requests from it
 *   git-upload-pack…  one for each permitted command on the remote
 *   proxy             for HTTPS addresses, in sessions that need them
 */
export interface Doors {
  readonly troubles: readonly ProxyTrouble[];
  close(): Promise<void>;
}

export interface DoorsOptions {
  way: Way | undefined;
  proxy: Pick<FilteringProxyOptions, 'rules' | 'connectMs' | 'silenceMs'>;
  authorities: string | undefined;
  signal: AbortSignal;
  session: Pick<OpenSession, 'attach' | 'join'>;
}

export const runnerSocket = 'runner';
export const authoritiesFile = 'authorities.pem';

/** `folder` must be short, because a socket's path may have at most 107 bytes. */
export async function openDoors(folder: string, options: DoorsOptions): Promise<Doors> {
  const { way, proxy, authorities, signal, session } = options;
  const opened = new AsyncDisposableStack();
  opened.defer(() => rm(folder, { recursive: true, force: true }).catch(() => {}));
  const listen = async (name: string, onConnection: (socket: Socket) => void): Promise<void> => {
    // A connection is passed on unread, because another process may read it.
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
