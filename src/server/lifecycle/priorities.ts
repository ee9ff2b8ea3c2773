import { highestPriority } from '../../shared/domain/bounds.ts';

/** A file cannot raise the priority that its project's suite has. A new suite has none. */
export function cappedPriority(suite: { priority?: number } = {}, own: { priority: number } = { priority: 0 }): number {
  return Math.min(suite.priority ?? 0, own.priority);
}

/** Of a build: the sum of its suite's and its request's. */
export function priorityOf(suite: number, request: number | null): number {
  return Math.max(-highestPriority, Math.min(highestPriority, suite + (request ?? 0)));
}
