import type { WebSocket } from 'ws';
import { ApiError } from '../../shared/errors.ts';
import { hasFrame, shellIsOver } from '../../shared/domain/shell-stream.ts';
import type { Vault } from '../../shared/lib/vault.ts';
import type { Database } from '../db/open.ts';
import type { Watch } from '../db/subscriptions.ts';

/**
 * Passes the packets of a shell from one end to the other (shared/domain/shell-stream.ts), perhaps to an end at another
 * server. Nothing is stored: a packet whose receiver is absent or too slow is lost, and its end sends it again. Between
 * servers, packets are encrypted announcements.
 */
export interface ShellRelay {
  /** Serves an end until its connection ends. Throws if the store fails. */
  serve(end: ShellEnd): Promise<void>;
  close(): void;
}

export interface ShellEnd {
  id: bigint;
  side: 'client' | 'runner';
  socket: WebSocket;
  /** Announces changes of the shell. */
  watch: Watch;
  /** Called before a frame is passed on. Throws if this end may no longer have the shell. */
  admit: () => unknown;
  /**
   * Why the shell is over, in words. `isHeard`: something arrived from this end since the last call, perhaps a pong.
   */
  check: (isHeard: boolean) => Promise<string | undefined>;
  /** Ends the connection. The shell continues, unless the reason is that this end may no longer have it. */
  signal: AbortSignal;
}

const word = 'shell';
const checkEveryMs = 10_000;
/** Further packets are lost until the receiver reads. */
const mostUnread = 1024 * 1024;

function deliver(socket: WebSocket, packet: Buffer): void {
  if (socket.bufferedAmount < mostUnread) socket.send(packet);
}

export function createShellRelay(db: Database, vault: Vault): ShellRelay {
  const sockets = new Map<string, WebSocket>();
  const replace = (name: string): void => over(sockets.get(name), 'The shell was opened from elsewhere.');
  const join = (name: string, socket: WebSocket): void => {
    replace(name);
    sockets.set(name, socket);
    void db.tellOthers([word, name].join(' '));
  };
  const pass = async (name: string, packet: Buffer): Promise<void> => {
    const socket = sockets.get(name);
    if (socket) deliver(socket, packet);
    else await db.tellOthers([word, name, vault.seal(packet.toString('base64'), locationOf(name))].join(' '));
  };
  const stop = db.listen((topic) => {
    const [first, name = '', content] = topic.split(' ');
    const socket = first === word ? sockets.get(name) : undefined;
    if (!socket) return;
    if (content === undefined) replace(name);
    else deliver(socket, opened(name, content));
  });

  /** Empty if the packet cannot be opened. It is sent again, with the key that both servers have by then. */
  const opened = (name: string, content: string): Buffer => {
    try {
      return Buffer.from(vault.open(content, locationOf(name)), 'base64');
    } catch {
      return Buffer.alloc(0);
    }
  };

  return {
    async serve({ id, side, socket, watch, admit, check, signal }) {
      const [name, other] = [`${id}/${side}`, `${id}/${side === 'client' ? 'runner' : 'client'}`];
      const ended = new AbortController();
      const joined = Promise.withResolvers<void>();
      let isHeard = true;
      let passing = 0;
      let admitted: Promise<unknown> | undefined;
      const admitOnce = (): Promise<unknown> =>
        (admitted ??= Promise.resolve(admit()).finally(() => (admitted = undefined)));
      const take = async (packet: Buffer): Promise<void> => {
        if (socket.readyState !== socket.OPEN) return;
        // Nothing more is read until this packet was passed on.
        passing += 1;
        socket.pause();
        try {
          await joined.promise;
          if (hasFrame(packet)) await admitOnce();
          await pass(other, packet);
        } catch (error) {
          if (error instanceof ApiError) over(socket, refused);
        } finally {
          passing -= 1;
          if (passing === 0) socket.resume();
        }
      };
      socket
        .on('message', (packet: Buffer) => {
          isHeard = true;
          void take(packet);
        })
        .on('pong', () => void (isHeard = true))
        .on('error', () => {}) // the socket is closed then
        .once('close', () => ended.abort());
      signal.addEventListener('abort', () => ended.abort(), { once: true, signal: ended.signal });
      if (signal.aborted) ended.abort();

      try {
        for (let isJoined = false; !ended.signal.aborted; isJoined = true) {
          const reason = await check(isHeard);
          if (reason !== undefined) return over(socket, reason);
          isHeard = false;
          if (!isJoined) join(name, socket);
          joined.resolve();
          await watch.changed(checkEveryMs, ended.signal);
        }
        if (signal.reason instanceof ApiError) over(socket, refused);
        else end(socket, elsewhere);
      } catch (error) {
        socket.terminate();
        throw error;
      } finally {
        if (sockets.get(name) === socket) sockets.delete(name);
      }
    },
    close: stop,
  };
}

const refused = 'You may no longer use this shell.';
const elsewhere = 1001;
const farewellMs = 1000;

function over(socket: WebSocket | undefined, reason: string): void {
  if (socket) end(socket, shellIsOver, reason);
}

function end(socket: WebSocket, code: number, reason = ''): void {
  socket.close(code, reason);
  socket.resume(); // for the answer
  setTimeout(() => socket.terminate(), farewellMs).unref();
}

const locationOf = (name: string): string => `packets of ${name}`;
