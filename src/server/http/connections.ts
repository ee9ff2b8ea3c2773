import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Http2ServerRequest, Http2Session, ServerHttp2Session, ServerHttp2Stream } from 'node:http2';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { FastifyInstance } from 'fastify';
import { isLoopback, networkOf } from '../../shared/lib/networks.ts';
import { noRoom, stoppedComing } from './socket-answers.ts';

/*
 * Anyone can open connections, and each costs a descriptor and memory. So their number is limited, in total and per
 * network. A client must make progress with the handshake, the head and the body. Responses and WebSockets have no time
 * limit.
 *
 * Without room, new connections replace older ones: first those without a request, oldest first, then those that are
 * idle or whose client reads no response. Only if all are in use is a new one refused.
 */

export interface ConnectionLimits {
  most: number;
  /** Per network. Connections from this machine do not count: a proxy here serves many clients. */
  mostOfOne: number;
}

export interface ConnectionTimes {
  /** For the TLS handshake: Node's own timeout. */
  handshakeMs: number;
  /** For the head of a request: Node's own timeout. For later requests it starts with their first byte. */
  headMs: number;
  /** A body with less than `bodyBytes` in this time is aborted, unless the server did not read. */
  bodyMs: number;
  bodyBytes: number;
}

export const usualTimes: ConnectionTimes = { handshakeMs: 10_000, headMs: 30_000, bodyMs: 60_000, bodyBytes: 4096 };

/** A client that reads nothing for this long may be disconnected to make room. */
const stalledMs = 60_000;

export type Refusal = 'full' | 'network';
export type Ending = 'handshake' | 'head' | 'body' | 'room';

export interface ConnectionWatcher {
  refused(why: Refusal): void;
  ended(why: Ending): void;
}

export interface Connections {
  readonly size: number;
  underWay(socket: Duplex): { request: IncomingMessage | undefined; response: ServerResponse | undefined } | undefined;
}

interface Network {
  size: number;
  silent: Set<Connection>;
}

interface Connection {
  /** Over TLS this becomes the TLS socket after the handshake. */
  socket: Socket;
  readonly network: Network | undefined;
  request: IncomingMessage | undefined;
  response: ServerResponse | undefined;
  /** HTTP/2 has many requests at once: open responses, and bodies that still arrive. */
  readonly open: Set<ServerResponse>;
  readonly bodies: Set<IncomingMessage>;
  /** The bytes received when the body last made progress, and the time since then. */
  arrived: number;
  waitedMs: number;
  /** The unsent bytes at the last check, and how long that number has not changed. */
  unsent: number;
  stalledMs: number;
}

export function checkIntervalMs({ headMs, bodyMs }: ConnectionTimes): number {
  return Math.max(10, Math.min(2000, headMs / 5, bodyMs / 5));
}

export function guardConnections(
  fastify: FastifyInstance,
  options: { hasTls: boolean; limits: ConnectionLimits; times: ConnectionTimes; watcher: ConnectionWatcher },
): Connections {
  const { hasTls, limits, times, watcher } = options;
  const { server } = fastify;
  const pauseMs = checkIntervalMs(times);
  /** In order of arrival. `silent` connections have no request yet. */
  const all = new Set<Connection>();
  const silent = new Set<Connection>();
  const bySocket = new WeakMap<Duplex, Connection>();
  /** Over TLS, requests come on a second socket with the same remote address and port. */
  const byOrigin = new Map<string, Connection>();
  const networks = new Map<string, Network>();
  let idle: Connection[] = [];
  let lookedForIdleAt = -Infinity;
  let isStopping = false;

  const begin = (socket: Socket, name: string | undefined): void => {
    const network = name === undefined ? undefined : (networks.get(name) ?? { size: 0, silent: new Set() });
    const connection: Connection = {
      socket,
      network,
      request: undefined,
      response: undefined,
      open: new Set(),
      bodies: new Set(),
      arrived: 0,
      waitedMs: 0,
      unsent: 0,
      stalledMs: 0,
    };
    const origin = hasTls ? originOf(socket) : undefined;
    all.add(connection);
    silent.add(connection);
    bySocket.set(socket, connection);
    if (origin !== undefined) byOrigin.set(origin, connection);
    if (network && name !== undefined) {
      networks.set(name, network);
      network.size += 1;
      network.silent.add(connection);
    }
    socket.once('close', () => {
      forget(connection);
      if (origin !== undefined && byOrigin.get(origin) === connection) byOrigin.delete(origin);
      if (name !== undefined && network?.size === 0 && networks.get(name) === network) networks.delete(name);
    });
  };
  const speaks = (connection: Connection): void => {
    silent.delete(connection);
    connection.network?.silent.delete(connection);
  };
  const forget = (connection: Connection): void => {
    if (!all.delete(connection)) return;
    speaks(connection);
    if (connection.network) connection.network.size -= 1;
  };
  const end = (connection: Connection, why: Ending): void => {
    forget(connection);
    watcher.ended(why);
    connection.socket.destroy();
  };
  const endOldest = (among: Set<Connection>): boolean => {
    const [oldest] = among;
    if (oldest) end(oldest, 'room');
    return oldest !== undefined;
  };
  /** Searches all connections, so it does not run for each new one. */
  const endIdle = (): boolean => {
    if (idle.length === 0 && performance.now() - lookedForIdleAt >= pauseMs) {
      lookedForIdleAt = performance.now();
      idle = [...all].filter(isIdle).slice(0, 256).reverse();
    }
    for (let one = idle.pop(); one; one = idle.pop()) {
      if (!all.has(one) || !isIdle(one)) continue;
      end(one, 'room');
      return true;
    }
    return false;
  };
  const refusalOf = (name: string | undefined): Refusal | undefined => {
    const network = name === undefined ? undefined : networks.get(name);
    if (network && network.size >= limits.mostOfOne && !endOldest(network.silent)) return 'network';
    if (all.size >= limits.most && !endOldest(silent) && !endIdle()) return 'full';
    return undefined;
  };

  // Node's own listeners run after ours: a refused client never gets a handshake.
  const accepting = server.listeners('connection') as ((socket: Socket) => void)[];
  server.removeAllListeners('connection');
  server.on('connection', (socket: Socket) => {
    if (isStopping) return void socket.destroy();
    const name = countedAs(socket);
    const refusal = refusalOf(name);
    if (refusal !== undefined) {
      watcher.refused(refusal);
      return turnAway(socket, hasTls);
    }
    begin(socket, name);
    for (const accept of accepting) accept.call(server, socket);
  });
  server.on('secureConnection', (socket: Socket) => {
    const connection = byOrigin.get(originOf(socket));
    if (!connection || !all.has(connection)) return;
    connection.socket = socket;
    bySocket.set(socket, connection);
  });
  // An HTTP/2 request has no socket, so its session is found by the remote address and port.
  const bySession = new WeakMap<Http2Session, Connection>();
  server.on('session', (session: ServerHttp2Session) => {
    const connection = byOrigin.get(originOf(session.socket));
    if (connection) bySession.set(session, connection);
  });
  server.on('request', (request: IncomingMessage, response: ServerResponse) => {
    const stream = streamOf(request);
    const connection = stream?.session ? bySession.get(stream.session) : bySocket.get(request.socket);
    if (!connection) return;
    if (!connection.request) speaks(connection);
    if (stream) {
      connection.open.add(response);
      response.once('close', () => connection.open.delete(response));
      if (!stream.endAfterHeaders) {
        connection.bodies.add(request);
        for (const event of ['end', 'close']) request.once(event, () => connection.bodies.delete(request));
      }
    }
    connection.request = request;
    connection.response = response;
    connection.waitedMs = 0;
  });

  // An open WebSocket counts as in use. Its owner watches over it.
  server.on('upgrade', ({ socket }: IncomingMessage) => {
    const connection = bySocket.get(socket);
    if (!connection) return;
    speaks(connection);
    connection.response = undefined; // an earlier one would make it look idle
  });

  const endTrickling = (): void => {
    for (const connection of all) {
      noteAnswer(connection, pauseMs);
      if (!isTrickling(connection, times, pauseMs)) continue;
      const { socket, response } = connection;
      // A client without a response gets the reason. The write fits, because it is the first.
      const isWaiting = response?.headersSent === false && !streamOf(response.req);
      if (isWaiting && socket.write(stoppedComing())) socket.end(() => end(connection, 'body'));
      else end(connection, 'body');
    }
  };
  const timer = setInterval(endTrickling, pauseMs).unref();

  // Browsers open connections in advance. Node would wait for them at a stop, so they are closed.
  fastify.addHook('preClose', (done) => {
    isStopping = true;
    for (const { socket } of silent) socket.destroy();
    for (const connection of all) closeWhenAnswered(connection);
    done();
  });
  fastify.addHook('onClose', (_, done) => {
    clearInterval(timer);
    done();
  });
  return {
    get size() {
      return all.size;
    },
    underWay: (socket) => bySocket.get(socket),
  };
}

/** True if all responses are sent or the client does not read. */
function isIdle({ response, open, stalledMs: stalled }: Connection): boolean {
  return response !== undefined && ((response.writableFinished && open.size === 0) || stalled >= stalledMs);
}

function noteAnswer(connection: Connection, passedMs: number): void {
  const { writableLength: unsent } = connection.socket;
  connection.stalledMs = unsent > 0 && unsent === connection.unsent ? connection.stalledMs + passedMs : 0;
  connection.unsent = unsent;
}

/** Counts only time in which the server waits for the client. */
function isTrickling(connection: Connection, { bodyMs, bodyBytes }: ConnectionTimes, passedMs: number): boolean {
  const { request, socket, bodies } = connection;
  const awaited = bodies.size > 0 ? [...bodies] : request && !request.complete ? [request] : [];
  if (awaited.length === 0) return false;
  const isOurTurn = awaited.some((one) => one.readableLength >= one.readableHighWaterMark);
  if (isOurTurn || socket.bytesRead - connection.arrived >= bodyBytes) {
    connection.arrived = socket.bytesRead;
    connection.waitedMs = 0;
  } else {
    connection.waitedMs += passedMs;
  }
  return connection.waitedMs >= bodyMs;
}

/** A busy connection would stay open after the server closes. HTTP/2 ones close with their last response. */
function closeWhenAnswered({ socket, response }: Connection): void {
  if (!response || response.writableFinished || streamOf(response.req)) return;
  if (response.headersSent) response.once('finish', () => socket.end());
  else response.shouldKeepAlive = false;
}

function streamOf(request: IncomingMessage): ServerHttp2Stream | undefined {
  return request.httpVersionMajor === 2 ? (request as unknown as Http2ServerRequest).stream : undefined;
}

/** Undefined for connections from this machine, which do not count. */
function countedAs({ remoteAddress }: Socket): string | undefined {
  return remoteAddress === undefined || isLoopback(remoteAddress) ? undefined : networkOf(remoteAddress);
}

function originOf({ remoteAddress, remotePort }: Pick<Socket, 'remoteAddress' | 'remotePort'>): string {
  return `${remoteAddress} ${remotePort}`;
}

/**
 * Over TLS a response would cost a handshake. A plain connection, from a proxy, gets a response and a moment to read
 * it.
 */
function turnAway(socket: Socket, hasTls: boolean): void {
  if (hasTls) return void socket.destroy();
  socket.on('error', () => {});
  socket.setTimeout(1000, () => socket.destroy());
  socket.resume().end(noRoom());
}
