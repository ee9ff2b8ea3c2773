import assert from 'node:assert/strict';
import type { ClientRequest, IncomingHttpHeaders, IncomingMessage } from 'node:http';
import https from 'node:https';

/** The content of an answer: identifiers are bigint, small numbers are numbers. */
export type Fields = Record<string, unknown>;
export type Record_ = Fields & { id: bigint; id_str: string };

export interface Credentials {
  email: string;
  api_key: string;
}

export interface Asking {
  as?: Credentials;
  form?: Record<string, string | bigint> | [string, string][];
  json?: unknown;
  /** Sent as it is, under the given content type. */
  body?: string | Uint8Array;
  headers?: Record<string, string>;
}

/** Calls the service as any client would. It trusts only the service's own certificate. */
export class Client {
  readonly #agent: https.Agent;
  readonly #address: URL;

  constructor(address: string, certificate: string, { keepAlive = true } = {}) {
    this.#address = new URL(address);
    this.#agent = new https.Agent({ ca: certificate, keepAlive, maxSockets: 64 });
  }

  get(path: string, asking: Asking = {}): Promise<Answer> {
    return this.ask('GET', path, asking);
  }

  post(path: string, asking: Asking = {}): Promise<Answer> {
    return this.ask('POST', path, asking);
  }

  put(path: string, asking: Asking = {}): Promise<Answer> {
    return this.ask('PUT', path, asking);
  }

  delete(path: string, asking: Asking = {}): Promise<Answer> {
    return this.ask('DELETE', path, asking);
  }

  ask(method: string, path: string, asking: Asking = {}): Promise<Answer> {
    const { headers, body } = written(asking);
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    const { hostname, port } = this.#address;
    // Node frames no body of a DELETE by itself.
    if (body !== undefined && method === 'DELETE') headers['content-length'] = String(Buffer.byteLength(body));
    const request = https.request({ hostname, port, method, path, headers, agent: this.#agent }, (incoming) => {
      const isEndless = incoming.headers['content-type']?.startsWith('text/event-stream') ?? false;
      if (isEndless) {
        // Other helpers follow streams; here the answer's head is enough.
        incoming.destroy();
        resolve(new Answer(incoming.statusCode ?? 0, incoming.headers, Buffer.alloc(0)));
        return;
      }
      const chunks: Buffer[] = [];
      incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
      incoming.on('end', () => resolve(new Answer(incoming.statusCode ?? 0, incoming.headers, Buffer.concat(chunks))));
      incoming.on('error', reject);
    });
    request.on('error', reject);
    request.end(body);
    return promise;
  }

  /** An answer that the caller reads as it comes. */
  async open(path: string, { as, headers = {} }: Pick<Asking, 'as' | 'headers'>): Promise<IncomingMessage> {
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const { hostname, port } = this.#address;
    const all = { ...headers, ...(as ? { authorization: basic(as) } : {}) };
    https.get({ hostname, port, path, headers: all, agent: this.#agent }, resolve).on('error', reject);
    return promise;
  }

  /** A POST, or something else, whose body the caller writes piece by piece. Without a length it is sent in chunks. */
  begin(
    path: string,
    { as, headers = {}, method = 'POST' }: Pick<Asking, 'as' | 'headers'> & { method?: string },
  ): [ClientRequest, Promise<Answer>] {
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    promise.catch(() => {}); // the caller that awaits it gets the error
    const { hostname, port } = this.#address;
    const all = { ...headers, ...(as ? { authorization: basic(as) } : {}) };
    const options = { hostname, port, method, path, headers: all, agent: this.#agent };
    const request = https.request(options, (incoming) => {
      const chunks: Buffer[] = [];
      incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
      incoming.on('end', () => resolve(new Answer(incoming.statusCode ?? 0, incoming.headers, Buffer.concat(chunks))));
      incoming.on('error', reject);
    });
    request.on('error', reject);
    return [request, promise];
  }

  close(): void {
    this.#agent.destroy();
  }
}

function written({ as, form, json, body, headers = {} }: Asking): {
  headers: Record<string, string>;
  body: string | Uint8Array | undefined;
} {
  const all: Record<string, string> = { ...headers };
  if (as) all.authorization = basic(as);
  if (form) {
    const pairs: [string, string][] = Array.isArray(form)
      ? form
      : Object.entries(form).map(([name, value]) => [name, String(value)]);
    return {
      headers: { 'content-type': 'application/x-www-form-urlencoded', ...all },
      body: new URLSearchParams(pairs).toString(),
    };
  }
  if (json !== undefined) return { headers: { 'content-type': 'application/json', ...all }, body: exactText(json) };
  return { headers: all, body };
}

export function basic({ email, api_key: key }: Credentials): string {
  return `Basic ${Buffer.from(`${email}:${key}`).toString('base64')}`;
}

function exactText(value: unknown): string {
  const { rawJSON } = JSON as unknown as { rawJSON: (this: void, text: string) => unknown };
  return JSON.stringify(value, (_, item: unknown) => (typeof item === 'bigint' ? rawJSON(String(item)) : item));
}

export function exactValue(text: string): unknown {
  const exact = (_: string, value: unknown, { source = '' }: { source?: string }): unknown =>
    Number.isInteger(value) && !Number.isSafeInteger(value) ? BigInt(source) : value;
  return JSON.parse(text, exact as (name: string, value: unknown) => unknown);
}

export class Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly bytes: Buffer;

  constructor(status: number, headers: IncomingHttpHeaders, bytes: Buffer) {
    this.status = status;
    this.headers = headers;
    this.bytes = bytes;
  }

  get text(): string {
    return this.bytes.toString();
  }

  get body(): Fields {
    return exactValue(this.text) as Fields;
  }

  /** The response; an API error fails the test here, with its text. */
  get response(): unknown {
    assert.ok([200, 201, 202].includes(this.status), `${this.status} ${this.text}`);
    const { body } = this;
    assert.deepEqual(Object.keys(body), ['response']);
    return body.response;
  }

  get record(): Record_ {
    return this.response as Record_;
  }

  get list(): Record_[] {
    assert.ok(Array.isArray(this.response), this.text);
    return this.response as Record_[];
  }
}
