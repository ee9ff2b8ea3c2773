import { authorizationOf } from '../auth/authorization.ts';
import { tokenName, useResolution } from '../auth/tokens.ts';
import type { SnapshotCache } from '../db/snapshot-cache.ts';
import type { Database } from '../db/open.ts';
import type { Incoming } from '../http/route.ts';
import { SharedWork } from '../lib/shared-work.ts';
import type { Admitted } from './admission.ts';
import type { Route } from './route.ts';

/**
 * Keeps who was admitted to what, and what they were answered, as long as nothing is committed to the store: the same
 * question of the same caller has the same answer then. Everything that depends on it goes through here, so that a server
 * can do without; its answers are the same.
 */
export interface AnswerCache {
  /** What `judge` finds, or found the last time. */
  admitted(route: Route, request: Incoming, judge: () => Promise<Admitted>): Admitted | Promise<Admitted>;
  /** The text that was answered to the same question. */
  answer(route: Route, request: Incoming, admitted: Admitted): string | undefined;
  keep(route: Route, request: Incoming, admitted: Admitted, text: string): void;
}

/** Finds out everything anew. */
export const noAnswerCache: AnswerCache = {
  admitted: (_route, _request, judge) => judge(),
  answer: () => undefined,
  keep: () => {},
};

/** Longer answers are made each time: what is kept must stay small. */
const longestKept = 4096;
const mostKept = 4;

/** A judgement, and the hour in which it was made: each hour begins anew, so that the use of a token is noted also where nobody writes. */
interface Kept {
  admitted: Admitted;
  hour: number;
}

export function createAnswerCache(db: Database): AnswerCache {
  /** Those who come with the same credentials for the same thing at the same time are judged together. */
  const judgements = new SharedWork<Admitted>();
  /** By judgement and address: had anything been committed since, neither would be found again. */
  const answersTo = new WeakMap<Admitted, Map<string, string>>();

  const recall = (name: string, cache: SnapshotCache, judge: () => Promise<Admitted>): Admitted | Promise<Admitted> => {
    const known = cache.get(name) as Kept | undefined;
    const hour = Math.floor(Date.now() / useResolution);
    if (known?.hour === hour) return known.admitted;
    const { asOf } = cache;
    return judge().then((admitted) => {
      answersTo.set(admitted, new Map());
      cache.set(name, { admitted, hour } satisfies Kept, asOf);
      return admitted;
    });
  };

  return {
    admitted(route, request, judge) {
      const name = nameOf(route, request);
      const together = (): Promise<Admitted> => judgements.do(name, judge);
      // What is about to be written changes what is known: there is nothing to be remembered for it.
      if (!db.inTurns && route.method !== 'GET') return together();
      const cache = db.cache();
      return cache instanceof Promise
        ? cache.then((current) => recall(name, current, together))
        : recall(name, cache, together);
    },
    answer: (route, { url }, admitted) => (isKept(route) ? answersTo.get(admitted)?.get(url) : undefined),
    keep(route, { url }, admitted, text) {
      const answers = isKept(route) && text.length <= longestKept ? answersTo.get(admitted) : undefined;
      if (answers && answers.size < mostKept) answers.set(url, text);
    },
  };
}

/** Pages come with a header, streams have no end, and what is open to anybody costs nothing. */
function isKept(route: Route): boolean {
  const isFixed = !route.paged && !route.streams && route.goesByTheClock !== true;
  return route.method === 'GET' && isFixed && route.concerns !== 'nobody';
}

/** Everything that the judgement depends on beside the store and the hour. */
function nameOf({ method }: Route, request: Incoming): string {
  const { url } = request;
  const queryAt = url.indexOf('?');
  const path = queryAt < 0 ? url : url.slice(0, queryAt);
  return `${method} ${path} ${String(authorizationOf(request))} ${tokenName(request)}`;
}
