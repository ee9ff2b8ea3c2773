import type { InnerCalls } from '../api/inner-calls.ts';
import type { Caller } from '../auth/callers.ts';
import type { Incoming } from '../http/route.ts';
import type { Answers } from '../resources/index.ts';
import { emptyGroup, type RawGroup } from '../../shared/records/raw.ts';

export interface RouteParts {
  params?: Record<string, string>;
  query?: Record<string, string | number>;
  body?: RawGroup;
}

/** The routes of the API, called as the owner of the token. */
export type CallRoute = <Name extends keyof Answers>(name: Name, parts?: RouteParts) => Promise<Answers[Name]>;

export function routeCalls(
  calls: InnerCalls,
  request: Pick<Incoming, 'id' | 'url' | 'raw'>,
  { caller, signal }: { caller: Caller; signal: AbortSignal },
): CallRoute {
  return async (name, { params = {}, query = {}, body } = {}) => {
    const texts = Object.entries(query).map(([field, value]) => [field, String(value)]);
    const { id, url, raw } = request;
    const sent = { params, query: Object.assign(emptyGroup(), Object.fromEntries(texts)), body, headers: {} };
    const answer = await calls.call(name, caller, { id, url, raw, ...sent }, signal);
    if ('record' in answer) return answer.record as never;
    if ('page' in answer) return answer.page.items as never;
    throw new Error(`${name} answers no record`);
  };
}
