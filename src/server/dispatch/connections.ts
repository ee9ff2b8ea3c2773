import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import type { Runner, Standing } from '../auth/runners.ts';
import { closing } from '../../shared/protocol/index.ts';
import { countArriving } from './arriving-messages.ts';
import type { RunnerShare, RunnerShares } from './runner-shares.ts';

export interface Connections {
  /** Throws an UnavailableError if the runner is at its limit of connections. */
  demandRoom(runner: Runner): void;
  open(socket: WebSocket, runner: Runner, wire: Duplex, serve: Serve): void;
  holders(): Iterable<string>;
  check(standings: ReadonlyMap<string, Standing>): void;
  drop(holder: string): void;
  /** Ends all connections. The runners connect again, to this server or another one. */
  letGo(): void;
}

/** Serves a connection until the signal. */
export type Serve = (of: { signal: AbortSignal; share: RunnerShare }) => void;

export interface ConnectionsParts {
  shares: RunnerShares;
  isQuiet: () => boolean;
}

/** A server about to stop sends its runners elsewhere after this time. By then a load balancer knows another server. */
const elsewhereMs = 5000;

const farewellMs = 1000;
/** Made once, because an error for each connection would cost more than the rest of ending it. */
const ended = new Error('the connection of the runner ended');

interface Connection {
  socket: WebSocket;
  /** Aborted when the connection is over. Later messages do not count. */
  over: AbortController;
  runner: Runner;
  since: number;
}

export function createConnections({ shares, isQuiet }: ConnectionsParts): Connections {
  const all = new Set<Connection>();
  let isLetGo = false;
  const end = ({ socket, over }: Connection, code: number): void => {
    over.abort(ended);
    socket.close(code);
    setTimeout(() => socket.terminate(), farewellMs).unref();
  };
  return {
    demandRoom: (runner) => shares.demandRoom(runner, 'connections'),
    open(socket, runner, wire, serve) {
      const share = shares.open(runner, 'connections');
      const connection = { socket, over: new AbortController(), runner, since: performance.now() };
      all.add(connection);
      share.attach(socket);
      countArriving(socket, wire, share);
      socket.on('error', () => {}); // the socket is closed then
      serve({ signal: connection.over.signal, share });
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
  };
}
