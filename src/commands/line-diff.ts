/** What differs between two texts, line by line, as `diff -u` shows it. */
export function lineDiff(from: string, to: string): string[] {
  const lines = compared(linesOf(from, to), linesOf(to, from));
  const isShown = lines.map((_, at) => lines.slice(Math.max(0, at - around), at + around + 1).some(isChange));
  const shown: string[] = [];
  let [old, next] = [1, 1];
  for (const [at, line] of lines.entries()) {
    if (isShown[at] && !isShown[at - 1]) shown.push(headOf(lines.slice(at, endOf(isShown, at)), old, next));
    if (isShown[at]) shown.push(line.sign + line.text);
    if (line.sign !== '+') old += 1;
    if (line.sign !== '-') next += 1;
  }
  return shown;
}

/** So many lines that are the same are shown around those that differ. */
const around = 3;

interface Line {
  sign: ' ' | '-' | '+';
  text: string;
}

const isChange = ({ sign }: Line): boolean => sign !== ' ';

/** The end of the last line is one only where the other text does not have it. */
function linesOf(text: string, other: string): string[] {
  return (text.endsWith('\n') && other.endsWith('\n') ? text.slice(0, -1) : text).split('\n');
}

function endOf(isShown: readonly boolean[], from: number): number {
  const end = isShown.indexOf(false, from);
  return end < 0 ? isShown.length : end;
}

function headOf(lines: readonly Line[], old: number, next: number): string {
  const [olds, nexts] = [
    lines.filter(({ sign }) => sign !== '+').length,
    lines.filter(({ sign }) => sign !== '-').length,
  ];
  return `@@ -${old},${olds} +${next},${nexts} @@`;
}

/** Longer texts are compared only at their beginnings and ends: the table would have too many places. */
const mostPlaces = 4_000_000;

/** All lines, by the longest sequence of lines that both have. */
function compared(old: readonly string[], next: readonly string[]): Line[] {
  const least = Math.min(old.length, next.length);
  let begin = 0;
  while (begin < least && old[begin] === next[begin]) begin += 1;
  let end = 0;
  while (end < least - begin && old.at(-1 - end) === next.at(-1 - end)) end += 1;
  const [a, b] = [old.slice(begin, old.length - end), next.slice(begin, next.length - end)];
  return [
    ...signed(' ', old.slice(0, begin)),
    ...(a.length * b.length > mostPlaces ? [...signed('-', a), ...signed('+', b)] : aligned(a, b)),
    ...signed(' ', old.slice(old.length - end)),
  ];
}

const signed = (sign: Line['sign'], texts: readonly string[]): Line[] => texts.map((text) => ({ sign, text }));

function aligned(a: readonly string[], b: readonly string[]): Line[] {
  const columns = b.length + 1;
  // How many lines both have from these two places on.
  const common = new Uint32Array((a.length + 1) * columns);
  const at = (i: number, j: number): number => common[i * columns + j] ?? 0;
  for (let i = a.length - 1; i >= 0; i -= 1)
    for (let j = b.length - 1; j >= 0; j -= 1)
      common[i * columns + j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
  const lines: Line[] = [];
  for (let i = 0, j = 0; i < a.length || j < b.length;) {
    const isSame = i < a.length && j < b.length && a[i] === b[j];
    const isOld = !isSame && i < a.length && (j === b.length || at(i + 1, j) >= at(i, j + 1));
    lines.push(...signed(isSame ? ' ' : isOld ? '-' : '+', [(isSame || isOld ? a[i] : b[j]) ?? '']));
    if (isSame || isOld) i += 1;
    if (!isOld) j += 1;
  }
  return lines;
}
