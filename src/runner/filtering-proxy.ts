import { closeSync, openSync } from 'node:fs';
import { chmod } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { connect, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { http } from '../shared/lib/http.ts';
import { ForbiddenAddressError, allowedLookup, type AddressRules } from '../shared/lib/address-filter.ts';

/**
 * A proxy on a Unix socket, the only network of an isolated program. It cannot read the encrypted connections. Host
 * names are untrusted, so the proxy checks each resolved address, and connects to exactly the checked one.
 */
export interface FilteringProxy {
  readonly troubles: readonly ProxyTrouble[];
  close(): Promise<void>;
}

/** `elsewhere`: not the permitted host. `redirected`: a refused redirect. `too_much`: over the byte limit. */
export type ProxyTrouble = 'forbidden' | 'elsewhere' | 'redirected' | 'unreachable' | 'too_much';

export interface PlainAnswer {
  status: number;
  type: string;
  body: Buffer;
}

export class RedirectError extends Error {}

export interface FilteringProxyOptions {
  /** The folder of the socket `proxySocket`. */
  folder: string;
  rules: AddressRules;
  /** The only permitted host, with its port. */
  only?: string | undefined;
  answer?: ((request: IncomingMessage) => Promise<PlainAnswer>) | undefined;
  /** Limit on the received bytes of all connections together. */
  mostBytes: number;
  /** Limits for connecting and for silence. */
  connectMs?: number;
  silenceMs?: number;
  signal: AbortSignal;
}

export const proxySocket = 'proxy';

export async function openFilteringProxy(options: FilteringProxyOptions): Promise<FilteringProxy> {
  const { folder, rules, only, signal, connectMs = 10_000, silenceMs = 60_000 } = options;
  const troubles: ProxyTrouble[] = [];
  const open = new Set<Duplex>();
  let left = options.mostBytes;

  const join = async ({ url = '' }: IncomingMessage, client: Duplex, head: Buffer): Promise<void> => {
    open.add(client);
    client.on('error', () => {}).on('close', () => open.delete(client));
    let remote: Socket | undefined;
    try {
      const target = new URL(`tcp://${url}`);
      if (only !== undefined && canonical(url) !== canonical(only)) throw new OtherHostError();
      remote = await reach(target, rules, AbortSignal.any([signal, AbortSignal.timeout(connectMs)]));
      const socket = remote;
      open.add(socket);
      socket.on('error', () => client.destroy()).on('close', () => open.delete(socket));
      client.on('close', () => socket.destroy());
      const cut = (problem: ProxyTrouble): void => {
        troubles.push(problem);
        socket.destroy();
        client.destroy(); // otherwise a program could wait forever for a response
      };
      socket.setTimeout(silenceMs, () => cut('unreachable'));
      socket.on('data', (chunk: Buffer) => {
        left -= chunk.length;
        if (left < 0) cut('too_much');
      });
      client.write('HTTP/1.1 200 OK\r\n\r\n');
      socket.write(head);
      socket.pipe(client);
      client.pipe(socket);
    } catch (error) {
      remote?.destroy();
      const problem = troubleOf(error);
      troubles.push(problem);
      client.end(`HTTP/1.1 ${problem === 'unreachable' ? '502 Bad Gateway' : '403 Forbidden'}\r\n\r\n`);
    }
  };
  const respond = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    response.on('error', () => {});
    try {
      const answered = await options.answer?.(request);
      if (answered === undefined) response.writeHead(405).end();
      else response.writeHead(answered.status, { 'content-type': answered.type }).end(answered.body);
    } catch (error) {
      troubles.push(troubleOf(error));
      response.writeHead(403, { connection: 'close' }).end();
    }
  };
  const server = http.createServer((request, response) => void respond(request, response));
  server.on('connect', (request, client, head) => void join(request, client, head));
  // A socket's path must be short, so it goes through the descriptor of the open folder.
  const directory = openSync(folder, 'r');
  try {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    server.once('error', reject).listen(`/proc/self/fd/${directory}/${proxySocket}`, resolve);
    await promise;
    await chmod(`/proc/self/fd/${directory}/${proxySocket}`, 0o666); // only its sandbox can enter the folder
  } finally {
    closeSync(directory);
  }
  return {
    troubles,
    async close() {
      for (const socket of open) socket.destroy();
      server.closeAllConnections();
      const { promise, resolve } = Promise.withResolvers<void>();
      server.close(() => resolve());
      await promise;
    },
  };
}

class OtherHostError extends Error {}

/** The same host and port can be written in several ways. This returns one of them. */
const canonical = (host: string): string => new URL(`https://${host}`).host;

function troubleOf(error: unknown): ProxyTrouble {
  if (error instanceof OtherHostError) return 'elsewhere';
  if (error instanceof RedirectError) return 'redirected';
  return error instanceof ForbiddenAddressError ? 'forbidden' : 'unreachable';
}

async function reach(target: URL, rules: AddressRules, signal: AbortSignal): Promise<Socket> {
  const port = Number(target.port);
  if (target.hostname === '' || !(port > 0)) throw new Error('not an address to connect to');
  const lookup = await allowedLookup(target, rules, signal);
  const host = target.hostname.replace(/^\[(.*)\]$/, '$1');
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  const socket = connect({ host, port, lookup, autoSelectFamily: true });
  const stop = (): void => void socket.destroy(new Error('it does not answer'));
  signal.addEventListener('abort', stop, { once: true });
  socket.once('connect', () => resolve(socket));
  socket.on('error', reject);
  try {
    return await promise;
  } finally {
    signal.removeEventListener('abort', stop);
  }
}
