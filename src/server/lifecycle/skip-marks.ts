import type { BuildRequestRow, CommitRow } from '../db/schema.ts';

/** The mark in a commit's message that asks for no build. */
export function skipMark(message: string): string | undefined {
  return /\[(?:skip ci|ci skip)\]/i.exec(message)?.[0];
}

/** Only these events obey the mark. A build that a person or a schedule asks for is wanted in any case. */
const heeding = new Set(['push', 'tag', 'poll']);

/**
 * Why nothing of a commit is built; undefined where it is built. The payloads of most forges have the message, so they
 * are decided before anything is fetched (inbound-hooks/facts.ts). Polls, and the payloads of some forges, have only
 * the SHA.
 */
export function whySkipped(
  { ref, message }: Pick<CommitRow, 'ref' | 'message'>,
  { event }: Pick<BuildRequestRow, 'event'>,
): string | undefined {
  const mark = heeding.has(event) ? skipMark(message) : undefined;
  return mark === undefined ? undefined : `The message of commit ${ref} says ${mark}: nothing is built.`;
}
