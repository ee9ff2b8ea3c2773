import type { BuildRow } from '../db/schema.ts';

/*
 * A build may get the files of several other suites beside its checkout. `lent_from` has the names of the suites, each
 * on a line of its own, because queries search it. `lent_by` has the builds.
 */

export const lentColumn = (names: readonly string[]): string => (names.length === 0 ? '' : `\n${names.join('\n')}\n`);

export const lentNames = ({ lent_from: lines }: Pick<BuildRow, 'lent_from'>): string[] =>
  lines.split('\n').filter((name) => name !== '');

export const lenders = ({ lent_by: ids }: Pick<BuildRow, 'lent_by'>): bigint[] =>
  (JSON.parse(ids) as string[]).map(BigInt);

export function takesFiles({
  files_from: single,
  lent_from: several,
}: Pick<BuildRow, 'files_from' | 'lent_from'>): boolean {
  return single !== '' || several !== '';
}
