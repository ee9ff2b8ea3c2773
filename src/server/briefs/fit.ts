import { most } from '../../shared/domain/bounds.ts';
import { plain } from '../../shared/lib/plain-text.ts';
import type { Brief } from '../../shared/records/brief.ts';
import type { Found } from './brief.ts';
import type { NewLine, Rank, ShownLine } from './tasks.ts';

/** Adds one part to a brief. */
type Part = (brief: Brief, lines: Map<number, Brief['lines'][number]>) => void;

/** The largest brief with the most telling parts whose rendering has at most this many bytes. */
export function fit(found: Found, mostBytes: number, render: (brief: Brief) => string): Brief {
  const { parts, isShort } = partsOf(found, mostBytes);
  const withFirst = (count: number, isCut: boolean): Brief => {
    const brief: Brief = {
      step: null,
      tests: [],
      lines: [],
      changed: { commits: [], files: [], inputs: [], variables: [] },
      seen: { count: found.seen.count, since: found.seen.since, branches: [] },
      reproduce: '',
      truncated: isCut || isShort || !found.isComplete,
    };
    const lines = new Map<number, Brief['lines'][number]>();
    for (const part of parts.slice(0, count)) part(brief, lines);
    brief.lines = [...lines.values()].toSorted((a, b) => a.number - b.number);
    return brief;
  };
  const fits = (brief: Brief): boolean => Buffer.byteLength(render(brief)) <= mostBytes;
  const whole = withFirst(parts.length, false);
  if (fits(whole)) return whole;
  let [low, high] = [0, parts.length];
  while (low + 1 < high) {
    const middle = (low + high) >> 1;
    if (fits(withFirst(middle, true))) low = middle;
    else high = middle;
  }
  return withFirst(low, true);
}

/** The most telling first. */
function partsOf(
  { step, tests, lines, changed, seen, reproduce }: Found,
  mostBytes: number,
): { parts: Part[]; isShort: boolean } {
  const longest = Math.min(2000, Math.floor(mostBytes / 8));
  const cut = (text: string, most = longest): string => plain(text).slice(0, Math.min(most, longest)).toWellFormed();
  const head: Part[] = [];
  if (step) head.push((brief) => (brief.step = { ...step, name: cut(step.name, 100) }));
  if (plain(reproduce) === reproduce) head.push((brief) => (brief.reproduce = reproduce));
  const failed = tests.map(({ name, class: of, suite, file, line, message }): Part => {
    const named = { name: cut(name, 300), class: cut(of, 300), suite: cut(suite, 300), file: cut(file, 300), line };
    const shown = { ...named, message: cut(message) };
    return (brief) => brief.tests.push(shown);
  });
  const commits = changed.commits.map(({ ref, message, scm_author_name: author }): Part => {
    const shown = { ref, message: cut(message, 200), scm_author_name: cut(author, 100) };
    return (brief) => brief.changed.commits.push(shown);
  });
  const some = most.partsOfBrief;
  const files = changed.files.slice(0, some).map(
    (file): Part =>
      (brief) =>
        brief.changed.files.push(cut(file)),
  );
  const inputs = changed.inputs.slice(0, some).map(
    ({ kind, name }): Part =>
      (brief) =>
        brief.changed.inputs.push({ kind, name: cut(name) }),
  );
  const variables = changed.variables.slice(0, some).map(
    (name): Part =>
      (brief) =>
        brief.changed.variables.push(cut(name)),
  );
  const branches = seen.branches.map(
    (name): Part =>
      (brief) =>
        brief.seen.branches.push(cut(name)),
  );
  const groups = [failed, commits, files, inputs, variables, branches];
  const early = groups.flatMap((group) => group.slice(0, 5));
  const late = groups.flatMap((group) => group.slice(5));
  const log = linesOf(lines);
  // Far more than fits need not be tried.
  let left = 2 * mostBytes;
  const show = ({ number, text }: ShownLine, isNew: boolean): Part[] => {
    if (left < 0) return [];
    const shown = { number, text: cut(text), new: isNew };
    left -= shown.text.length + 30;
    return [(_, all) => void (isNew || !all.has(number) ? all.set(number, shown) : all)];
  };
  const besides = ({ before, after }: NewLine): Part[] =>
    [...before, ...after].filter(({ number }) => !log.numbers.has(number)).flatMap((line) => show(line, false));
  const first = log.first.flatMap((line) => [...show(line, true), ...besides(line)]);
  const rest = log.rest.flatMap((line) => show(line, true));
  const restBesides = log.rest.flatMap(besides);
  const last = log.numbers.size === 0 ? lines.last.toReversed().flatMap((line) => show(line, false)) : [];
  const hasMore = [changed.files, changed.inputs, changed.variables].some(({ length }) => length > some);
  return {
    parts: [...head, ...first, ...last, ...early, ...rest, ...restBesides, ...late],
    isShort: hasMore || left < 0,
  };
}

/** How many lines of each rank come first: from the first ones, and from the last ones. */
const leading: readonly [Rank, number, number][] = [
  ['failure', 8, 4],
  ['step', 4, 6],
  ['other', 2, 2],
  ['repeated', 0, 6],
];

function linesOf({ found }: Found['lines']): { first: NewLine[]; rest: NewLine[]; numbers: Set<number> } {
  const byRank = Map.groupBy(found, ({ rank }) => rank);
  const first: NewLine[] = [];
  const rest: NewLine[] = [];
  for (const [rank, begin, end] of leading) {
    const all = byRank.get(rank) ?? [];
    const isFirst = (at: number): boolean => at < begin || at >= all.length - end;
    first.push(...all.filter((_, at) => isFirst(at)));
    rest.push(...all.filter((_, at) => !isFirst(at)));
  }
  return { first, rest, numbers: new Set(found.map(({ number }) => number)) };
}
