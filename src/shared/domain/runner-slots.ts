/**
 * A runner has slots for builds, and for everything else that takes long, and slots of their own for fetches and
 * connection checks: these are short, and nothing can be seen of a push before its fetch. So they never wait behind
 * builds.
 */
export const slotKinds = ['builds', 'fetches'] as const;
export type SlotKind = (typeof slotKinds)[number];

/** The kinds of jobs that take a slot for fetches. */
export const fetchKinds: readonly string[] = ['fetch_commit', 'check_connection', 'pack_files'];

export function slotOf(kind: string): SlotKind {
  return fetchKinds.includes(kind) ? 'fetches' : 'builds';
}

/** How many slots for fetches a runner has beside so many slots for builds. */
export function fetchSlots(builds: number): number {
  return Math.max(2, builds);
}

/** Why work waits that is in the queue, where nothing else keeps it there. */
export const waitsForItsTurn = 'waits for its turn';
