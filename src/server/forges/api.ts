import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import * as Type from 'typebox';
import type { Static, TSchema } from 'typebox';
import { Check } from 'typebox/value';
import { bytes } from '../../shared/domain/bounds.ts';
import { createMask, type Mask } from '../../shared/domain/masking.ts';
import { ForbiddenAddressError } from '../../shared/lib/address-filter.ts';
import { codeOf } from '../../shared/lib/error-code.ts';
import { failureText, guardedRequest, retryAfterOf, type RequestRules } from '../../shared/lib/guarded-request.ts';
import { readUntrustedJson } from '../../shared/lib/untrusted-json.ts';
import { ForgeError } from './forge.ts';
import { restAfter } from './rate-limit.ts';

export interface ForgeRules extends RequestRules {
  pace?: () => Promise<void>;
}

export interface ApiAccess {
  /** Without a trailing slash. */
  base: string;
  headers: Record<string, string>;
  /** Masked in all responses of the forge. */
  secrets: readonly string[];
}

export interface Answered<T> {
  value: T;
  headers: IncomingHttpHeaders;
}

interface Told {
  status: number;
  value: unknown;
  isEmpty: boolean;
  headers: IncomingHttpHeaders;
  retryAfterMs: number | undefined;
}

const longestSaid = 300;

/**
 * Responses are untrusted: limited, masked and checked by schema. Redirects are not followed, so no token is sent
 * elsewhere.
 */
export class ForgeApi {
  readonly #access: ApiAccess;
  readonly #rules: ForgeRules;
  readonly #mask: Mask;

  constructor(access: ApiAccess, rules: ForgeRules) {
    this.#access = access;
    this.#rules = rules;
    this.#mask = createMask(access.secrets);
  }

  async get<Of extends TSchema>(path: string, schema: Of): Promise<Answered<Static<Of>>> {
    return this.#judged(schema, await this.#call('GET', path));
  }

  /**
   * A forge responds with the object that it created, or with nothing. Any other response comes from a proxy, which
   * created nothing.
   */
  async post(path: string, body: object): Promise<void> {
    const answer = await this.#call('POST', path, JSON.stringify(body));
    if (!answer.isEmpty) this.#judged(Type.Object({}), answer);
  }

  /** The forge responds with the object that it created or changed. */
  async send<Of extends TSchema>(
    method: 'POST' | 'PATCH' | 'PUT',
    path: string,
    body: object,
    schema: Of,
  ): Promise<Static<Of>> {
    return this.#judged(schema, await this.#call(method, path, JSON.stringify(body))).value;
  }

  async has(path: string): Promise<boolean> {
    return (await this.orMissing(this.#call('GET', path))) !== undefined;
  }

  async orMissing<T>(asked: Promise<T>): Promise<T | undefined> {
    return asked.catch((error: unknown) => {
      if (error instanceof ForgeError && error.kind === 'not_found') return undefined;
      throw error;
    });
  }

  /** A missing object counts as deleted. */
  async delete(path: string): Promise<void> {
    await this.orMissing(this.#call('DELETE', path));
  }

  #judged<Of extends TSchema>(schema: Of, { value, headers, status }: Told): Answered<Static<Of>> {
    if (!Check(schema, value))
      throw new ForgeError('not_a_forge', `The server at ${this.#access.base} is not this kind of forge.`, { status });
    return { value, headers };
  }

  async #call(method: string, path: string, body?: string): Promise<Told> {
    const { base, headers } = this.#access;
    await this.#rules.pace?.();
    const answer = await guardedRequest(
      { url: `${base}${path}`, method, headers, body },
      this.#rules,
      async (incoming) => {
        const text = await wholeOf(incoming);
        return {
          status: incoming.statusCode ?? 0,
          headers: this.#masked(incoming.headers) ?? {},
          value: this.#masked(parsed(text)),
          isEmpty: text === '',
          retryAfterMs: retryAfterOf(incoming, Date.now()),
        };
      },
    ).catch((error: unknown) => {
      throw this.#unanswered(error);
    });
    if (answer.status >= 200 && answer.status < 300) return answer;
    throw this.#refusal(answer);
  }

  /** Undefined for a value that is nested too deeply. */
  #masked<T>(value: T): T | undefined {
    try {
      // JSON writes every character that a secret may have in only one way.
      const plain = JSON.stringify(value) as string | undefined;
      const shown = plain && this.#mask.maskText(plain);
      return shown === plain ? value : (JSON.parse(shown ?? '') as T);
    } catch {
      return undefined;
    }
  }

  #unanswered(error: unknown): ForgeError {
    if (error instanceof ForgeError) return error;
    const text = this.#mask.maskText(failureText(error));
    const isWrong =
      error instanceof ForbiddenAddressError ||
      /^(ENOTFOUND|EPROTO|ERR_TLS_|ERR_SSL_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_|CERT_)/.test(codeOf(error));
    return new ForgeError(isWrong ? 'not_a_forge' : 'unavailable', `${this.#access.base} cannot be called: ${text}.`);
  }

  #refusal({ status, headers, value, retryAfterMs: asked }: Told) {
    const explanation = saidIn(value);
    const retryAfterMs = asked ?? restAfter(status, explanation);
    const text = `The forge answered ${status}${explanation === '' ? '.' : `: ${explanation}`}`;
    if (retryAfterMs !== undefined || status === 429 || status >= 500)
      return new ForgeError('unavailable', text, { status, retryAfterMs });
    if (status === 401) return new ForgeError('refused', text, { status });
    if (status >= 300 && status < 400)
      return new ForgeError('moved', text, { status, location: this.#below(headers.location) });
    if (status === 403) return new ForgeError('forbidden', text, { status });
    if (status === 404 || status === 410) return new ForgeError('not_found', text, { status });
    return new ForgeError('invalid', text, { status });
  }

  /** The path of an address below this API, or blank for any other address. */
  #below(location = ''): string {
    const target = URL.parse(location, `${this.#access.base}/`);
    const base = new URL(this.#access.base);
    const isBelow = target?.host === base.host && target.pathname.startsWith(`${base.pathname.replace(/\/$/, '')}/`);
    return isBelow ? target.pathname.slice(base.pathname.replace(/\/$/, '').length) : '';
  }
}

async function wholeOf(incoming: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of incoming as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    size += chunk.length;
    if (size > bytes.forgeAnswer)
      throw new ForgeError('not_a_forge', `The forge answered with more than ${bytes.forgeAnswer} bytes.`);
  }
  return Buffer.concat(chunks).toString();
}

function parsed(text: string): unknown {
  try {
    return readUntrustedJson(text);
  } catch {
    return undefined;
  }
}

/** The message of an error. Forges use different names for it. */
function saidIn(answer: unknown): string {
  const texts: string[] = [];
  const walk = (value: unknown, depth: number): void => {
    if (typeof value === 'string') texts.push(value);
    else if (Array.isArray(value)) for (const one of value.slice(0, 5)) walk(one, depth + 1);
    else if (typeof value === 'object' && value !== null && depth < 4) {
      const told = value as Readonly<Record<string, unknown>>;
      for (const name of ['message', 'error', 'error_description', 'errors', 'detail', 'key', 'fingerprint'])
        if (name in told) walk(told[name], depth + 1);
    }
  };
  walk(answer, 0);
  const plain = [...new Set(texts)]
    .join(' ')
    .replaceAll(/[\p{Cc}\s]+/gu, ' ')
    .trim();
  return Array.from(plain.toWellFormed()).slice(0, longestSaid).join('');
}
