/** Fetches and checks are short, and a push stays invisible until its fetch. So they never wait behind builds. */
export const slotKinds = ['builds', 'fetches'] as const;
export type SlotKind = (typeof slotKinds)[number];

/** The kinds of jobs that take a slot for fetches. */
export const fetchKinds: readonly string[] = ['fetch_commit', 'check_connection', 'pack_files', 'check_inputs'];

export function slotOf(kind: string): SlotKind {
  return fetchKinds.includes(kind) ? 'fetches' : 'builds';
}

export function fetchSlots(builds: number): number {
  return Math.max(2, builds);
}

/** The reason for queued work that has no other reason to wait. */
export const waitsForItsTurn = 'waits for its turn';
