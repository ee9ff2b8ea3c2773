import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import type { Runner, Standing } from '../auth/runners.ts';
import { repeatedly } from '../../shared/lib/repeatedly.ts';
import { closing } from '../../shared/protocol/index.ts';
import { countArriving } from './arriving-messages.ts';
import { serveCalls, type CallParts } from './calls.ts';
import type { RunnerShares } from './runner-shares.ts';

export interface Connections {
  /** Throws an UnavailableError if the runner is at its limit of connections. */
  demandRoom(runner: Runner): void;
  open(socket: WebSocket, runner: Runner, wire: Duplex): void;
  holders(): Iterable<string>;
  check(standings: ReadonlyMap<string, Standing>): void;
  drop(holder: string): void;
  /** The runners connect again, to this server or another one. */
  letGo(): void;
  close(): Promise<void>;
}

export interface ConnectionsParts {
  calls: CallParts;
  shares: RunnerShares;
  isQuiet: () => boolean;
}

/** Pings keep proxies from cutting silent connections, and detect peers that have vanished. */
const pingMs = 10_000;
const silentMs = 25_000;
/** A server about to stop sends its runners elsewhere after this time. By then a load balancer knows another server. */
const elsewhereMs = 5000;

const farewellMs = 1000;
/** Made once: an error for each connection would cost more than the rest of its end. */
const ended = new Error('the connection of the runner ended');

interface Connection {
  socket: WebSocket;
  /** Aborted when the connection is over. Later messages do not count. */
  over: AbortController;
  runner: Runner;
  since: number;
  lastMessageAt: number;
}

export function createConnections({ calls, shares, isQuiet }: ConnectionsParts): Connections {
  const all = new Set<Connection>();
  let isLetGo = false;
  const ping = async (): Promise<void> => {
    const now = performance.now();
    for (const { socket, lastMessageAt } of all) {
      if (now - lastMessageAt > silentMs) socket.terminate();
      else socket.ping();
    }
  };
  const pinging = repeatedly(pingMs, ping, () => {});
  const end = ({ socket, over }: Connection, code: number): void => {
    over.abort(ended);
    socket.close(code);
    setTimeout(() => socket.terminate(), farewellMs).unref();
  };
  return {
    demandRoom: (runner) => shares.demandRoom(runner, 'connections'),
    open(socket, runner, wire) {
      const share = shares.open(runner, 'connections');
      const now = performance.now();
      const connection = { socket, over: new AbortController(), runner, since: now, lastMessageAt: now };
      const onMessage = (): void => void (connection.lastMessageAt = performance.now());
      all.add(connection);
      share.attach(socket);
      countArriving(socket, wire, share);
      socket
        .on('message', onMessage)
        .on('pong', onMessage)
        .on('error', () => {}); // the socket is closed then
      serveCalls(socket, runner, { signal: connection.over.signal, share }, calls);
      socket.once('close', () => {
        all.delete(connection);
        connection.over.abort(ended);
        share[Symbol.dispose]();
      });
      if (isLetGo) end(connection, closing.elsewhere);
    },
    *holders() {
      for (const { runner } of all) yield runner.holder;
    },
    check(standings) {
      const now = performance.now();
      for (const connection of all) {
        const { since, runner } = connection;
        if (runner.tokenHash === undefined) continue;
        if (!standings.has(runner.tokenHash)) end(connection, closing.tokenEnded);
        else if (isQuiet() && now - since > elsewhereMs) end(connection, closing.elsewhere);
      }
    },
    drop(holder) {
      for (const { socket, runner } of all) if (runner.holder === holder) socket.terminate();
    },
    letGo() {
      isLetGo = true;
      for (const connection of all) end(connection, closing.elsewhere);
    },
    async close() {
      await pinging.stop();
    },
  };
}
