import { authorizationOf } from '../auth/authorization.ts';
import { tokenName, useResolution } from '../auth/tokens.ts';
import type { SnapshotCache } from '../db/snapshot-cache.ts';
import type { Database } from '../db/open.ts';
import type { Incoming } from '../http/route.ts';
import { SharedWork } from '../lib/shared-work.ts';
import type { Admitted } from './admission.ts';
import type { Route } from './route.ts';

/**
 * Caches admissions and answers until the next commit to the store: until then the same request of the same caller has
 * the same answer. The whole cache is behind this interface, so that a server can run without it and give the same
 * answers.
 */
export interface AnswerCache {
  /** The result of `judge`, or the cached one. */
  admitted(route: Route, request: Incoming, judge: () => Promise<Admitted>): Admitted | Promise<Admitted>;
  /** The cached answer to the same request. */
  answer(route: Route, request: Incoming, admitted: Admitted): string | undefined;
  keep(route: Route, request: Incoming, admitted: Admitted, text: string): void;
}

/** Caches nothing. */
export const noAnswerCache: AnswerCache = {
  admitted: (_route, _request, judge) => judge(),
  answer: () => undefined,
  keep: () => {},
};

/** Longer answers are not cached, to keep the cache small. */
const longestKept = 4096;
const mostKept = 4;

/**
 * An admission, and the hour in which it was made. It is valid in that hour only, so that the use of a token is noted
 * even without any commits.
 */
interface Kept {
  admitted: Admitted;
  hour: number;
}

export function createAnswerCache(db: Database): AnswerCache {
  /** Concurrent requests with the same credentials for the same path share one admission. */
  const judgements = new SharedWork<Admitted>();
  /** By admission and URL: after a commit the admission is not found again, and so neither are its answers. */
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
      // A write is followed by a commit, and a stream is mostly asked for right after one: the look for commits would be
      // a round trip for nothing.
      if (!db.inTurns && (route.method !== 'GET' || route.streams)) return together();
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

/** Pages have a header, streams have no end, and public routes need no admission. */
function isKept(route: Route): boolean {
  const isFixed = !route.paged && !route.streams && route.goesByTheClock !== true;
  return route.method === 'GET' && isFixed && route.concerns !== 'nobody';
}

/** Everything that the admission depends on, except the store and the hour. */
function nameOf({ method }: Route, request: Incoming): string {
  const { url } = request;
  const queryAt = url.indexOf('?');
  const path = queryAt < 0 ? url : url.slice(0, queryAt);
  return `${method} ${path} ${String(authorizationOf(request))} ${tokenName(request)}`;
}
