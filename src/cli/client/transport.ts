import type { Agent, ClientRequest, IncomingMessage, RequestOptions } from 'node:http';
import https from 'node:https';
import type { ConnectionOptions } from 'node:tls';
import { WebSocket, type ClientOptions } from 'ws';
import { http } from '../../shared/lib/http.ts';
import { hasUntrustedIssuer } from '../../shared/lib/untrusted-issuer.ts';
import { Failure, failureOf } from './failure.ts';
import { trustOf, type ServerAddress } from './server.ts';

export interface Sending {
  method?: string;
  headers?: Record<string, string>;
  body?: string;
  signal?: AbortSignal | undefined;
}

/** After this silence the response counts as lost. Streams send something every 15 seconds. */
const silenceMs = 60_000;
const handshakeMs = 20_000;

/** Redirects are not followed, so credentials never reach another server. */
export class Transport {
  readonly #server: ServerAddress;
  readonly #agent: Agent;
  readonly #module: { request: typeof https.request };

  constructor(server: ServerAddress) {
    this.#server = server;
    const isPlain = server.url.startsWith('http:');
    this.#module = isPlain ? http : https;
    const options = { keepAlive: true, maxSockets: 8 };
    this.#agent = isPlain ? new http.Agent(options) : new https.Agent({ ...options, ...trustOf(server) });
  }

  get url(): string {
    return this.#server.url;
  }

  close(): void {
    this.#agent.destroy();
  }

  /** The caller writes the body. */
  begin(path: string, { method = 'GET', headers = {}, signal }: Omit<Sending, 'body'>): ClientRequest {
    const options: RequestOptions = { method, headers, agent: this.#agent, timeout: silenceMs };
    const request = this.#module.request(`${this.#server.url}${path}`, signal ? { ...options, signal } : options);
    request.on('timeout', () => request.destroy(Object.assign(new Error('silence'), { code: 'ETIMEDOUT' })));
    return request;
  }

  /** Fails unless the status is good. The caller reads the body. */
  async open(path: string, { body, ...sending }: Sending = {}): Promise<IncomingMessage> {
    const request = this.begin(path, sending);
    const answer = this.answerTo(request);
    request.end(body);
    return answer;
  }

  async answerTo(request: ClientRequest): Promise<IncomingMessage> {
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    request.on('response', resolve);
    request.on('error', (error) => reject(this.asFailure(error)));
    const answer = await promise;
    const { statusCode = 0 } = answer;
    if (statusCode >= 200 && statusCode < 300) return answer;
    throw await this.#refusalIn(answer);
  }

  /** A response that is not a WebSocket goes to `onRefused`. Other failures are errors of the socket. */
  connect(path: string, headers: Record<string, string>, onRefused: (failure: Failure) => void): WebSocket {
    const { url } = this.#server;
    const trust = url.startsWith('http:') ? {} : { ...trustOf(this.#server), ALPNProtocols: ['http/1.1'] };
    const options: ClientOptions & ConnectionOptions = {
      ...trust,
      headers,
      handshakeTimeout: handshakeMs,
      perMessageDeflate: false,
    };
    const socket = new WebSocket(`${url.replace(/^http/, 'ws')}${path}`, options);
    socket.once('unexpected-response', (_, answer) => {
      this.#refusalIn(answer)
        .then(onRefused, () => {})
        .finally(() => socket.terminate());
    });
    return socket;
  }

  async #refusalIn(answer: IncomingMessage): Promise<Failure> {
    const { statusCode = 0, headers } = answer;
    if (statusCode === 426) {
      answer.destroy();
      return new Failure(
        'refused',
        `${this.#server.url} cannot be reached over WebSocket. A proxy in front of it must forward the headers Connection and Upgrade.`,
      );
    }
    if (statusCode >= 300 && statusCode < 400) {
      answer.destroy();
      return new Failure(
        'unreachable',
        `${this.#server.url} redirects to ${targetOf(headers.location)}. If that is your server, sign in there: headrace login`,
      );
    }
    return failureOf(statusCode, await this.textOf(answer, 64 * 1024), String(headers['x-request-id'] ?? ''));
  }

  async textOf(answer: IncomingMessage, most = 256 * 1024 * 1024): Promise<string> {
    const pieces: Buffer[] = [];
    let size = 0;
    try {
      for await (const piece of answer as AsyncIterable<Buffer>) {
        size += piece.length;
        if (size > most) break;
        pieces.push(piece);
      }
    } catch (error) {
      throw this.asFailure(error);
    }
    return Buffer.concat(pieces).toString();
  }

  async *pieces(answer: IncomingMessage): AsyncGenerator<Buffer> {
    try {
      for await (const piece of answer as AsyncIterable<Buffer>) yield piece;
    } catch (error) {
      throw this.asFailure(error);
    }
  }

  /** For an error of a connection. */
  asFailure(error: unknown): unknown {
    if (error instanceof Failure || !(error instanceof Error) || error.name === 'AbortError') return error;
    const { code = '' } = error as NodeJS.ErrnoException;
    const { url, pinned } = this.#server;
    const more = `${code} ${error.message}`;
    if (code === 'OTHER_CERTIFICATE' || (pinned && hasUntrustedIssuer(code)))
      return new Failure(
        'untrusted',
        `The certificate of ${url} differs from the one you accepted. If the operator renewed it, sign in again: headrace login ${url}`,
        more,
      );
    if (hasUntrustedIssuer(code))
      return new Failure(
        'untrusted',
        `The certificate of ${url} is unknown here. Sign in with headrace login ${url}, or pass its certificate authority with --ca-file.`,
        more,
      );
    if (code === 'CERT_HAS_EXPIRED')
      return new Failure('untrusted', `The certificate of ${url} has expired. Its operator has to renew it.`, more);
    if (code === 'ERR_TLS_CERT_ALTNAME_INVALID')
      return new Failure('untrusted', `The certificate of ${url} is for another name. Use that name.`, more);
    return new Failure('unreachable', `Cannot reach ${url} (${reasonOf(code, error)}). Is the server running?`, more);
  }
}

function targetOf(location: string | undefined): string {
  return location !== undefined && URL.canParse(location) ? new URL(location).origin : 'another place';
}

function reasonOf(code: string, error: Error): string {
  const known: Record<string, string> = {
    ECONNREFUSED: 'nothing listens there',
    ENOTFOUND: 'there is no such host',
    EAI_AGAIN: 'its name cannot be resolved',
    ECONNRESET: 'the connection broke',
    ETIMEDOUT: 'it does not answer',
    EPROTO: 'it does not speak TLS',
    EHOSTUNREACH: 'there is no route to it',
    ENETUNREACH: 'there is no route to it',
  };
  return known[code] ?? (code === '' ? error.message : code);
}
