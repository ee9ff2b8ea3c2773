import type { BuildRequestRow, CommitRow } from '../db/schema.ts';

/** What a commit's message says if it asks for no build. */
export function skipMark(message: string): string | undefined {
  return /\[(?:skip ci|ci skip)\]/i.exec(message)?.[0];
}

/** What began with a push heeds the mark. Who asks for a build by hand, or on a schedule, means it. */
const heeding = new Set(['push', 'tag', 'poll']);

/**
 * Why nothing is built of a commit; undefined where it is. Most payloads of forges have the message, and are judged before
 * anything is fetched (inbound-hooks/facts.ts). Polls, and the payloads of some forges, tell only the SHA.
 */
export function whySkipped(
  { ref, message }: Pick<CommitRow, 'ref' | 'message'>,
  { event }: Pick<BuildRequestRow, 'event'>,
): string | undefined {
  const mark = heeding.has(event) ? skipMark(message) : undefined;
  return mark === undefined ? undefined : `The message of commit ${ref} says ${mark}: nothing is built.`;
}
