/**
 * A runner has places for builds, and for everything else that takes long, and places of their own for fetches and
 * connection checks: these are short, and nothing can be seen of a push before its fetch. So they never wait behind
 * builds.
 */
export const placeKinds = ['builds', 'fetches'] as const;
export type PlaceKind = (typeof placeKinds)[number];

/** The kinds of jobs that take a place for fetches. */
export const fetchKinds: readonly string[] = ['fetch_commit', 'check_connection'];

export function placeOf(kind: string): PlaceKind {
  return fetchKinds.includes(kind) ? 'fetches' : 'builds';
}

/** How many places for fetches a runner has beside so many places for builds. */
export function fetchPlaces(builds: number): number {
  return Math.max(2, builds);
}

/** Why work waits that is in the queue, where nothing else keeps it there. */
export const inTurn = 'waits for its turn';
