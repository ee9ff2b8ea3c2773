import type { Database, Queries } from '../db/open.ts';
import { failureExpression } from './failures.ts';
import { lineIndex, type LineIndex } from './line-index.ts';
import { searchLog, type SearchParts } from './search.ts';

/** The parts of a log that its page folds or begins at. */
export interface Outline {
  /** First and last lines of the groups that have ended, one after the other. */
  groups: number[];
  /** Lines that report a failure. */
  failures: number[];
  /** Up to this line the failures are complete. */
  failuresTo: number;
}

const mostGroups = 2000;
const mostFailures = 500;

/** Lines that open or close a group, and lines that show that a `--- ` before them belongs to a diff. */
const groupLine = String.raw`^(?:::group::|::endgroup::|--- |\+\+\+ )`;

interface Wanted {
  account: bigint;
  /** The search stops after this time. */
  milliseconds: number;
}

/** Reads the stored outline. Without one, the log is searched. */
export async function outlineOf(parts: SearchParts, index: LineIndex, wanted: Wanted): Promise<Outline> {
  return (await storedOutline(parts.db, index.log.id)) ?? findOutline(parts, index, wanted);
}

async function findOutline(parts: SearchParts, index: LineIndex, wanted: Wanted): Promise<Outline> {
  const until = performance.now() + wanted.milliseconds;
  const matches = (expression: string, most: number): Promise<MatchingLines> =>
    linesMatching(parts, index, { ...wanted, expression, most, milliseconds: until - performance.now() });
  const groups = await matches(groupLine, mostGroups);
  const failures = await matches(failureExpression, mostFailures);
  return {
    groups: groupsIn(groups.found),
    failures: failures.found.map(({ number }) => number),
    failuresTo: failures.to,
  };
}

export interface MatchingLines {
  found: { number: number; text: string }[];
  /** Up to this line they are complete. */
  to: number;
}

/** Searches a log in several parts, up to a time and a number of lines. */
export async function linesMatching(
  parts: SearchParts,
  index: LineIndex,
  { account, milliseconds, expression, most }: Wanted & { expression: string; most: number },
): Promise<MatchingLines> {
  const until = performance.now() + milliseconds;
  const found: MatchingLines['found'] = [];
  for (let from = 1; ;) {
    const left = until - performance.now();
    if (left <= 0) return { found, to: from - 1 };
    const search = { expression, from, limit: most - found.length, account, milliseconds: left };
    const { matches, next } = await searchLog(parts, index, search);
    found.push(...matches);
    if (next === null) return { found, to: index.total };
    if (found.length >= most) return { found, to: next - 1 };
    from = next;
  }
}

/** A group without an end continues until the end of the log, and is not among these. */
function groupsIn(found: readonly { number: number; text: string }[]): number[] {
  const groups: number[] = [];
  let open: { number: number; isDashes: boolean } | undefined;
  const close = (last: number): void => {
    if (open && last > open.number) groups.push(open.number, last);
    open = undefined;
  };
  for (const { number, text } of found) {
    if (text.startsWith('+++ ')) {
      if (open?.isDashes && number === open.number + 1) open = undefined;
    } else if (text.startsWith('::endgroup::')) close(number);
    else {
      close(number - 1);
      open = { number, isDashes: text.startsWith('--- ') };
    }
  }
  return groups;
}

async function storedOutline(db: Queries, id: bigint): Promise<Outline | undefined> {
  const indexes = db.selectFrom('log_indexes').select('outline').where('log_id', '=', id);
  const outline = (await indexes.executeTakeFirst())?.outline ?? '';
  return outline === '' ? undefined : (JSON.parse(outline) as Outline);
}

/** More than any log needs. */
const longestSearchMs = 60_000;

/** For a packed log. Safe to run twice. */
export async function storeOutline(parts: Omit<SearchParts, 'db'> & { db: Database }, id: bigint): Promise<void> {
  const { db } = parts;
  const index = await lineIndex({ ...parts, db: db.read }, id);
  if (!index || index.log.blob === null || (await storedOutline(db.read, id))) return;
  const outline = await findOutline({ ...parts, db: db.read }, index, {
    account: 0n,
    milliseconds: longestSearchMs,
  });
  // If the log was restarted in between, it has no index now.
  await db.transaction((trx) =>
    trx
      .updateTable('log_indexes')
      .set({ outline: JSON.stringify(outline) })
      .where('log_id', '=', id)
      .execute(),
  );
}
