import type { IncomingMessage } from 'node:http';
import type { WebSocket } from 'ws';
import { parseJson } from './json.ts';
import { Failure } from './failure.ts';
import { operations, streams, type Answered, type Name, type StreamName } from './operations.ts';
import { exactly, readEvents, type StreamedEvent } from './events.ts';
import { Transport } from './transport.ts';
import type { ServerAddress } from './server.ts';

export type Params = Record<string, string>;
/** A field with several values is sent several times. */
export type Fields = Record<string, string | readonly string[] | boolean | undefined>;

export interface Rest {
  offset: number;
  size: number;
  pieces: AsyncIterable<Buffer>;
  onSent: (bytes: number) => void;
}

/** One server's API, for one user. Identifiers are sent as text, because a JavaScript number cannot hold them. */
export class Client {
  readonly #transport: Transport;
  readonly #token: string;

  constructor(server: ServerAddress, token: string) {
    this.#transport = new Transport(server);
    this.#token = token;
  }

  get url(): string {
    return this.#transport.url;
  }

  close(): void {
    this.#transport.close();
  }

  async call<N extends Name>(name: N, params: Params = {}, fields: Fields = {}): Promise<Answered<N>> {
    const [method = 'GET', route = ''] = operations[name].split(' ');
    const path = fill(route, params);
    const form = formOf(fields);
    const isRead = method === 'GET';
    const answer = await this.#open(isRead && form !== '' ? `${path}?${form}` : path, {
      method,
      ...(isRead ? {} : { body: form }),
    });
    return responseIn(await this.#transport.textOf(answer)) as Answered<N>;
  }

  async text(name: StreamName, params: Params): Promise<string> {
    return this.#transport.textOf(await this.bytes(name, params));
  }

  async bytes(
    name: StreamName,
    params: Params,
    { headers = {}, query = {} }: { headers?: Record<string, string>; query?: Record<string, string> } = {},
  ): Promise<IncomingMessage> {
    const asked = new URLSearchParams(query).toString();
    return this.#open(`${fill(streams[name], params)}${asked === '' ? '' : `?${asked}`}`, { headers });
  }

  /** `onRefused` gets the server's response if that is not a WebSocket. */
  connect(name: StreamName, params: Params, onRefused: (failure: Failure) => void): WebSocket {
    return this.#transport.connect(fill(streams[name], params), this.#headers(), onRefused);
  }

  /** For an error of such a connection. */
  asFailure(error: unknown): unknown {
    return this.#transport.asFailure(error);
  }

  /** Resumes after a broken connection. With `log`, bytes of the log that are not UTF-8 are read unchanged. */
  follow(name: StreamName, params: Params, log?: StreamName): AsyncGenerator<StreamedEvent> {
    const path = fill(streams[name], params);
    const open = async (last: string | undefined): Promise<AsyncIterable<Buffer>> => {
      const accept = { accept: 'application/x-ndjson' };
      const headers = last === undefined ? accept : { ...accept, 'last-event-id': last };
      return this.#transport.pieces(await this.#open(path, { headers }));
    };
    return readEvents(open, async (event) => {
      const { text = '', offset, id } = event;
      if (log === undefined || offset === undefined || id === undefined || !text.includes('\ufffd')) return event;
      const range = `bytes=${offset}-${Number(id) - 1}`;
      const pieces = this.#transport.pieces(await this.bytes(log, params, { headers: { range } }));
      return { ...event, bytes: await exactly(Number(id) - offset, pieces) };
    });
  }

  /** Reports after each piece how much was sent in all. */
  async sendRest(params: Params, { offset, size, pieces, onSent }: Rest): Promise<void> {
    const headers = {
      ...this.#headers(),
      'content-type': 'application/partial-upload',
      'content-length': String(size - offset),
      'upload-offset': String(offset),
      'upload-complete': '?1',
    };
    const request = this.#transport.begin(fill(streams.upload, params), { method: 'PATCH', headers });
    const answering = this.#transport.answerTo(request);
    let isAnswered = false;
    const answered = answering.then(
      () => void (isAnswered = true),
      () => void (isAnswered = true),
    );
    let sent = offset;
    for await (const piece of pieces) {
      // The server may refuse the archive by its first bytes, and then reads no more of it.
      if (isAnswered) break;
      if (!request.write(piece)) {
        const { promise, resolve } = Promise.withResolvers<void>();
        request.once('drain', resolve);
        await Promise.race([promise, answered]);
      }
      sent += piece.length;
      onSent(sent);
    }
    if (!isAnswered && sent < size) {
      request.destroy();
      throw new Failure('invalid', 'The file became shorter while it was sent.');
    }
    request.end();
    await this.#transport.textOf(await answering);
  }

  #headers(): Record<string, string> {
    return { authorization: `Bearer ${this.#token}`, 'user-agent': 'headrace' };
  }

  #open(
    path: string,
    { headers = {}, ...sending }: Parameters<Transport['open']>[1] & object,
  ): Promise<IncomingMessage> {
    const form = sending.body === undefined ? {} : { 'content-type': 'application/x-www-form-urlencoded' };
    return this.#transport.open(path, { ...sending, headers: { ...this.#headers(), ...form, ...headers } });
  }
}

function formOf(fields: Fields): string {
  const pairs: [string, string][] = [];
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined) continue;
    for (const one of Array.isArray(value) ? value : [String(value)]) pairs.push([name, String(one)]);
  }
  return new URLSearchParams(pairs).toString();
}

function fill(path: string, params: Params): string {
  return path.replaceAll(/:(\w+)/g, (_, name: string) => {
    const value = params[name];
    if (value === undefined) throw new Error(`${path} needs ${name}`);
    return encodeURIComponent(value);
  });
}

function responseIn(text: string): unknown {
  let body: unknown;
  try {
    body = parseJson(text);
  } catch {
    body = undefined;
  }
  if (typeof body !== 'object' || body === null || !('response' in body))
    throw new Failure('unreachable', 'The address does not answer like a Headrace server. Check it.');
  return body.response;
}
