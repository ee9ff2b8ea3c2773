import type { BuildRequestRow, CommitRow } from '../db/schema.ts';

export function skipMark(message: string): string | undefined {
  return /\[(?:skip ci|ci skip)\]/i.exec(message)?.[0];
}

/** Only these events obey the mark: a user or a schedule wants a build anyway. */
const heeding = new Set(['push', 'tag', 'poll']);

/**
 * Why the commit is not built, or undefined if it is built. Polls and some forges' payloads have only the SHA, so the
 * mark is found here. Other payloads are checked earlier (inbound-hooks/facts.ts).
 */
export function whySkipped(
  { ref, message }: Pick<CommitRow, 'ref' | 'message'>,
  { event }: Pick<BuildRequestRow, 'event'>,
): string | undefined {
  const mark = heeding.has(event) ? skipMark(message) : undefined;
  return mark === undefined ? undefined : `The message of commit ${ref} contains ${mark}: nothing is built.`;
}
