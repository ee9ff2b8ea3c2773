import type { InnerCalls, RouteName } from '../api/inner-calls.ts';
import { callerInBrowser } from '../auth/callers.ts';
import type { UserRow } from '../db/schema.ts';
import type { PageOf } from '../http/paging.ts';
import { emptyGroup, type RawGroup } from '../http/raw.ts';
import type { Incoming, StreamAnswer } from '../http/route.ts';

/** What goes with a call. Parameters of the path that are not given are those of the page's own address. */
export interface CallParts {
  params?: Record<string, string | bigint> | undefined;
  query?: Record<string, string | number | bigint | undefined>;
  body?: RawGroup | undefined;
}

/**
 * The API's routes, with the visitor as the caller. Whatever is refused is thrown as the API's own error; what a page does
 * not catch becomes the page for it (a 404 where something is not there, or is somebody else's).
 */
export interface VisitApi {
  /** The record or list that a route answers; the rows alone of a list in pages. */
  call<T = AnyRecord>(name: RouteName, parts?: CallParts): Promise<T>;
  get<T = AnyRecord>(path: `/${string}`, parts?: CallParts): Promise<T>;
  /** One page of a list, and whether there is more on either side. */
  list<T = AnyRecord>(path: `/${string}`, parts?: CallParts): Promise<PageOf<T>>;
  stream(path: `/${string}`, query: RawGroup, signal: AbortSignal): Promise<StreamAnswer>;
  /** Refuses what the visitor may not do, and does nothing. */
  admit(name: RouteName): Promise<void>;
}

/** A record as the API shows it; identifiers are there as `bigint` and as text. */
export interface AnyRecord {
  id: bigint;
  id_str: string;
  [field: string]: unknown;
}

/** The request that a page came with. */
export type PageRequest = Pick<Incoming, 'id' | 'url' | 'params' | 'headers' | 'raw'>;

export function visitApi(calls: InnerCalls, person: Readonly<UserRow>, request: PageRequest): VisitApi {
  const caller = callerInBrowser(person);
  const incoming = (parts: CallParts): Incoming => ({
    id: request.id,
    url: request.url,
    params: { ...request.params, ...textsOf(parts.params ?? {}) },
    query: Object.assign(emptyGroup(), textsOf(parts.query ?? {})),
    body: parts.body,
    // A browser is made to send hardly any header by others, but nothing of a page needs one either.
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
