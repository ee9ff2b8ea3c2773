import type { IncomingMessage } from 'node:http';
import { WebSocket } from 'ws';
import { orAborted } from '../shared/lib/or-aborted.ts';
import {
  closing,
  connectionPath,
  decodeMessage,
  DrainedError,
  encodeMessage,
  protocolHeader,
  type Answer,
  type CallName,
  type Message,
} from '../shared/protocol/index.ts';
import { failureOf, otherVersion, refusalIn, RefusedError, revoked } from './failures.ts';

/** The server pings every ten seconds. After a silence of this length the connection counts as lost. */
const silentMs = 35_000;
const handshakeMs = 20_000;
/** Pauses between attempts. Calls during a pause fail with the last error. */
const pausesMs = { first: 50, longest: 500 };
const mostBytes = 64 * 1024 * 1024;

interface Pending {
  name: CallName;
  resolve: (answer: never) => void;
  reject: (error: Error) => void;
}

export interface ConnectionParts {
  open: () => WebSocket;
  explainUnreachable: (error: Error) => Error;
  onConnected: (isConnected: boolean) => void;
}

/** After a lost connection, the next call opens a new one, to any server. Callers repeat calls without a response. */
export class ServerConnection {
  readonly #parts: ConnectionParts;
  #connecting: Promise<Connected> | undefined;
  #pauseMs = pausesMs.first;
  #isClosed = false;
  lastMessageAt = performance.now();

  constructor(parts: ConnectionParts) {
    this.#parts = parts;
  }

  async call<Name extends CallName>(name: Name, message: Message<Name>, signal: AbortSignal): Promise<Answer<Name>> {
    signal.throwIfAborted();
    this.#connecting ??= this.#connect();
    const connection = await orAborted(this.#connecting, signal);
    return connection.call(name, message, signal);
  }

  /** If no response comes within this time, the connection counts as dead and is terminated. */
  async callWithin<Name extends CallName>(
    ms: number,
    name: Name,
    message: Message<Name>,
    signal: AbortSignal,
  ): Promise<Answer<Name>> {
    const timer = setTimeout(() => this.#end((connection) => connection.terminate()), ms);
    try {
      return await this.call(name, message, signal);
    } finally {
      clearTimeout(timer);
    }
  }

  close(): void {
    this.#isClosed = true;
    this.#end((connection) => connection.close());
  }

  #end(how: (connection: Connected) => void): void {
    this.#connecting?.then(how, () => {}); // a failed attempt has no connection to end
  }

  async #connect(): Promise<Connected> {
    try {
      const socket = await opened(this.#parts);
      this.#pauseMs = pausesMs.first;
      const onMessage = (): void => void (this.lastMessageAt = performance.now());
      onMessage();
      socket.on('ping', onMessage).on('message', onMessage);
      const connection = new Connected(socket, () => {
        this.#connecting = undefined;
        this.#parts.onConnected(false);
      });
      this.#parts.onConnected(true);
      if (this.#isClosed) connection.close();
      return connection;
    } catch (error) {
      setTimeout(() => (this.#connecting = undefined), this.#pauseMs).unref();
      this.#pauseMs = Math.min(2 * this.#pauseMs, pausesMs.longest);
      throw error;
    }
  }
}

class Connected {
  readonly #socket: WebSocket;
  readonly #calls = new Map<number, Pending>();
  #last = 0;

  constructor(socket: WebSocket, onEnd: () => void) {
    this.#socket = socket;
    const silence = setTimeout(() => socket.terminate(), silentMs);
    const onMessage = (): void => void silence.refresh();
    socket.on('ping', onMessage).on('message', onMessage);
    socket.on('message', (data: Buffer, isBinary) => {
      try {
        this.#take(decodeMessage(data, isBinary));
      } catch {
        socket.terminate(); // the response is not from a Headrace server
      }
    });
    socket.on('close', (code) => {
      clearTimeout(silence);
      onEnd();
      const error = code === closing.tokenEnded ? revoked() : new Error('the connection to the server ended');
      for (const { reject } of this.#calls.values()) reject(error);
    });
  }

  async call<Name extends CallName>(name: Name, message: Message<Name>, signal: AbortSignal): Promise<Answer<Name>> {
    if (this.#socket.readyState !== WebSocket.OPEN) throw new Error('the connection to the server ended');
    this.#last += 1;
    const id = this.#last;
    const { promise, resolve, reject } = Promise.withResolvers<never>();
    this.#calls.set(id, { name, resolve, reject });
    try {
      this.#socket.send(encodeMessage({ ...message, id, call: name }));
      return await orAborted(promise, signal);
    } finally {
      this.#calls.delete(id);
    }
  }

  close(): void {
    this.#socket.close(1001);
  }

  terminate(): void {
    this.#socket.terminate();
  }

  #take({ id, answer, bytes, end, status, error }: Record<string, unknown>): void {
    const pending = this.#calls.get(id as number);
    if (!pending) return; // the caller no longer waits
    if (end === true) pending.reject(new DrainedError());
    else if (status === undefined) pending.resolve((bytes ?? answer) as never);
    else pending.reject(failureOf(pending.name, Number(status), JSON.stringify({ error })));
  }
}

async function opened({ open, explainUnreachable }: ConnectionParts): Promise<WebSocket> {
  const { promise, resolve, reject } = Promise.withResolvers<WebSocket>();
  const socket = open();
  socket.once('open', () => resolve(socket));
  socket.on('error', (error) => reject(explainUnreachable(error))); // later errors end the connection
  socket.once('unexpected-response', (_, response) => {
    refusal(response)
      .then(reject, reject)
      .finally(() => socket.terminate());
  });
  return promise;
}

async function refusal(response: IncomingMessage): Promise<Error> {
  const { statusCode: status, headers } = response;
  const refusal = await refusalIn(response);
  if (refusal.startsWith(`{"error":{"${protocolHeader}":`)) return otherVersion(String(headers['headrace-version']));
  if (status === 426)
    return new RefusedError(
      'the server cannot be reached over WebSocket: a proxy in front of it must forward the headers Connection and Upgrade',
    );
  return failureOf(connectionPath, status, refusal);
}

export const connectionOptions = { handshakeTimeout: handshakeMs, maxPayload: mostBytes, perMessageDeflate: false };
