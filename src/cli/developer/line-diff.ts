import { diff, type DiffEntry } from 'node:util';

/** As `diff -u` shows it. */
export function lineDiff(from: string, to: string): string[] {
  const lines = compared(linesOf(from, to), linesOf(to, from));
  const isShown = lines.map((_, at) => lines.slice(Math.max(0, at - around), at + around + 1).some(([sign]) => sign));
  const shown: string[] = [];
  let [old, next] = [1, 1];
  for (const [at, [sign, text]] of lines.entries()) {
    if (isShown[at] && !isShown[at - 1]) shown.push(headOf(lines.slice(at, endOf(isShown, at)), old, next));
    if (isShown[at]) shown.push(`${signs[sign]}${text}`);
    if (sign >= 0) old += 1;
    if (sign <= 0) next += 1;
  }
  return shown;
}

const around = 3;
/** Node's codes: 1 is a line that only the first text has. */
const signs = { 1: '-', 0: ' ', '-1': '+' };

/** A missing final line break counts only if the other text has one. */
function linesOf(text: string, other: string): string[] {
  return (text.endsWith('\n') && other.endsWith('\n') ? text.slice(0, -1) : text).split('\n');
}

function endOf(isShown: readonly boolean[], from: number): number {
  const end = isShown.indexOf(false, from);
  return end < 0 ? isShown.length : end;
}

function headOf(lines: readonly DiffEntry[], old: number, next: number): string {
  const [olds, nexts] = [lines.filter(([sign]) => sign >= 0), lines.filter(([sign]) => sign <= 0)];
  return `@@ -${old},${olds.length} +${next},${nexts.length} @@`;
}

/** Longer texts are compared only at their beginnings and ends: the rest would take too much memory. */
const mostCells = 1_000_000;

function compared(old: readonly string[], next: readonly string[]): DiffEntry[] {
  const least = Math.min(old.length, next.length);
  let begin = 0;
  while (begin < least && old[begin] === next[begin]) begin += 1;
  let end = 0;
  while (end < least - begin && old.at(-1 - end) === next.at(-1 - end)) end += 1;
  const [a, b] = [old.slice(begin, old.length - end), next.slice(begin, next.length - end)];
  return [
    ...signed(0, old.slice(0, begin)),
    ...(a.length * b.length > mostCells ? [...signed(1, a), ...signed(-1, b)] : diff(a, b)),
    ...signed(0, old.slice(old.length - end)),
  ];
}

const signed = (sign: DiffEntry[0], texts: readonly string[]): DiffEntry[] => texts.map((text) => [sign, text]);
