import type { InnerCalls, RouteName } from '../api/inner-calls.ts';
import { callerInBrowser } from '../auth/callers.ts';
import type { UserRow } from '../db/schema.ts';
import type { PageOf } from '../http/paging.ts';
import { emptyGroup, type RawGroup } from '../http/raw.ts';
import type { Incoming, StreamAnswer } from '../http/route.ts';

/** The parts of a call. Parameters of the path that are missing are taken from the page's address. */
export interface CallParts {
  params?: Record<string, string | bigint> | undefined;
  query?: Record<string, string | number | bigint | undefined>;
  body?: RawGroup | undefined;
}

/**
 * The API's routes, with the visitor as the caller. A refusal is thrown as the API's own error. If a page does not
 * catch it, it becomes an error page (404 for a record that is missing or belongs to somebody else).
 */
export interface VisitApi {
  /** The record or list that a route answers; for a paged list, only its rows. */
  call<T = AnyRecord>(name: RouteName, parts?: CallParts): Promise<T>;
  get<T = AnyRecord>(path: `/${string}`, parts?: CallParts): Promise<T>;
  /** One page of a list, and whether there are more before and after it. */
  list<T = AnyRecord>(path: `/${string}`, parts?: CallParts): Promise<PageOf<T>>;
  stream(path: `/${string}`, query: RawGroup, signal: AbortSignal): Promise<StreamAnswer>;
  /** Throws where the visitor may not call this route; does nothing else. */
  admit(name: RouteName): Promise<void>;
}

/** A record as the API shows it, with identifiers as `bigint` and as text. */
export interface AnyRecord {
  id: bigint;
  id_str: string;
  [field: string]: unknown;
}

/** The request for a page. */
export type PageRequest = Pick<Incoming, 'id' | 'url' | 'params' | 'headers' | 'raw'>;

export function visitApi(calls: InnerCalls, person: Readonly<UserRow>, request: PageRequest): VisitApi {
  const caller = callerInBrowser(person);
  const incoming = (parts: CallParts): Incoming => ({
    id: request.id,
    url: request.url,
    params: { ...request.params, ...textsOf(parts.params ?? {}) },
    query: Object.assign(emptyGroup(), textsOf(parts.query ?? {})),
    body: parts.body,
    // Other sites can hardly set headers, but pages need no others anyway.
    headers: { 'content-type': request.headers['content-type'] },
    raw: request.raw,
  });
  const answerTo = (name: RouteName, parts: CallParts = {}) => calls.call(name, caller, incoming(parts));
  return {
    async call<T>(name: RouteName, parts?: CallParts) {
      const answer = await answerTo(name, parts);
      if ('record' in answer) return answer.record as T;
      if ('page' in answer) return answer.page.items as T;
      throw new Error(`${name} answers no record`);
    },
    async get<T>(path: `/${string}`, parts?: CallParts) {
      return this.call<T>(`GET ${path}`, parts);
    },
    async list<T>(path: `/${string}`, parts?: CallParts) {
      const answer = await answerTo(`GET ${path}`, parts);
      if (!('page' in answer)) throw new Error(`${path} is no list in pages`);
      return answer.page as PageOf<unknown> as PageOf<T>;
    },
    async stream(path, query, signal) {
      const { range, accept, 'last-event-id': last } = request.headers;
      const told = { ...incoming({}), query, headers: { range, accept, 'last-event-id': last } };
      const answer = await calls.call(`GET ${path}`, caller, told, signal);
      if (!('stream' in answer)) throw new Error(`${path} does not stream`);
      return answer.stream;
    },
    admit: (name) => calls.admit(name, caller, request.params),
  };
}

function textsOf(values: Record<string, string | number | bigint | undefined>): Record<string, string> {
  const given = Object.entries(values).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given.map(([name, value]) => [name, String(value)]));
}
