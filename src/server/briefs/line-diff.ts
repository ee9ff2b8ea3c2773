type Hashes = Uint32Array;

/** Equal lines: where they begin in one log and in the other, and how many they are; one triple after the other. */
export type EqualRuns = number[];

interface Range {
  a: number;
  aEnd: number;
  b: number;
  bEnd: number;
  depth: number;
}

/** Deeper, what is left differs. Each level costs as much as its lines. */
const deepest = 12;
/** Lines and differences for which the shortest script is searched. */
const [mostLines, mostDifferences] = [20_000, 300];

/**
 * Patience diff: lines that occur once in both are anchors, and the parts between them are compared likewise. Its time is
 * linear for any input, so hostile logs only get a longer diff than is needed.
 */
export function equalRuns(a: Hashes, b: Hashes): EqualRuns {
  const runs: EqualRuns = [];
  const emit = (at: number, other: number, length: number): void => {
    const [lastA, lastB, last] = runs.slice(-3);
    if (lastA !== undefined && lastA + (last as number) === at && (lastB as number) + (last as number) === other)
      runs[runs.length - 1] = (last as number) + length;
    else if (length > 0) runs.push(at, other, length);
  };
  const walk = ({ a: from, aEnd, b: withFrom, bEnd, depth }: Range): void => {
    let [at, end, other, otherEnd] = [from, aEnd, withFrom, bEnd];
    while (at < end && other < otherEnd && a[at] === b[other]) [at, other] = [at + 1, other + 1];
    emit(from, withFrom, at - from);
    while (at < end && other < otherEnd && a[end - 1] === b[otherEnd - 1]) [end, otherEnd] = [end - 1, otherEnd - 1];
    const isOnePair = end - at === 1 && otherEnd - other === 1;
    if (at < end && other < otherEnd && depth < deepest && !isOnePair) {
      const range = { a: at, aEnd: end, b: other, bEnd: otherEnd, depth: depth + 1 };
      const anchors = anchorsIn(a, b, range);
      if (anchors.length > 0) {
        let [lastA, lastB] = [at, other];
        for (const [nextA, nextB] of [...anchors, [end, otherEnd] as const]) {
          walk({ a: lastA, aEnd: nextA, b: lastB, bEnd: nextB, depth: depth + 1 });
          [lastA, lastB] = [nextA, nextB];
        }
      } else for (const [x, y] of shortest(a, b, range)) emit(x, y, 1);
    }
    emit(end, otherEnd, aEnd - end);
  };
  walk({ a: 0, aEnd: a.length, b: 0, bEnd: b.length, depth: 0 });
  return runs;
}

type Pair = readonly [a: number, b: number];

const [none, several] = [-1, -2];

/** Lines that occur once in both, as many as are in the same order. */
function anchorsIn(a: Hashes, b: Hashes, { a: from, aEnd, b: withFrom, bEnd }: Range): Pair[] {
  let slots = 16;
  while (slots < 2 * (aEnd - from)) slots *= 2;
  const last = slots - 1;
  const [places, others] = [new Int32Array(slots).fill(none), new Int32Array(slots).fill(none)];
  const slotOf = (hash: number): number => {
    let slot = Math.imul(hash, 0x9e3779b1) & last;
    while (places[slot] !== none && a[first[slot] as number] !== hash) slot = (slot + 1) & last;
    return slot;
  };
  const first = new Int32Array(slots);
  for (let at = from; at < aEnd; at += 1) {
    const slot = slotOf(a[at] as number);
    if (places[slot] === none) [places[slot], first[slot]] = [at, at];
    else places[slot] = several;
  }
  for (let at = withFrom; at < bEnd; at += 1) {
    const slot = slotOf(b[at] as number);
    if (places[slot] !== none) others[slot] = others[slot] === none ? at : several;
  }
  const pairs: Pair[] = [];
  for (let at = from; at < aEnd; at += 1) {
    const slot = slotOf(a[at] as number);
    if (places[slot] === at && (others[slot] as number) >= 0) pairs.push([at, others[slot] as number]);
  }
  return longestRising(pairs);
}

/** The longest subsequence in which the second numbers rise too. */
function longestRising(pairs: readonly Pair[]): Pair[] {
  const tails: number[] = [];
  const before = new Int32Array(pairs.length);
  for (const [index, [, b]] of pairs.entries()) {
    let [low, high] = [0, tails.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((pairs[tails[middle] as number] as Pair)[1] < b) low = middle + 1;
      else high = middle;
    }
    before[index] = low > 0 ? (tails[low - 1] as number) : none;
    tails[low] = index;
  }
  const found: Pair[] = [];
  for (let at = tails.at(-1) ?? none; at !== none; at = before[at] as number) found.push(pairs[at] as Pair);
  return found.toReversed();
}

/** The shortest edit script (Myers), as its equal lines. Empty if there are too many lines or differences. */
function shortest(a: Hashes, b: Hashes, { a: from, aEnd, b: withFrom, bEnd }: Range): Pair[] {
  const [n, m] = [aEnd - from, bEnd - withFrom];
  if (n + m > mostLines) return [];
  const width = 2 * mostDifferences + 3;
  const middle = mostDifferences + 1;
  const reached = new Int32Array(width);
  const history: Int32Array[] = [];
  for (let d = 0; d <= mostDifferences; d += 1) {
    history.push(reached.slice(middle - d - 1, middle + d + 2));
    for (let k = -d; k <= d; k += 2) {
      const down = k === -d || (k !== d && (reached[middle + k - 1] as number) < (reached[middle + k + 1] as number));
      let x = down ? (reached[middle + k + 1] as number) : (reached[middle + k - 1] as number) + 1;
      while (x < n && x - k < m && a[from + x] === b[withFrom + x - k]) x += 1;
      reached[middle + k] = x;
      if (x >= n && x - k >= m) return traced(history, { n, m, from, withFrom });
    }
  }
  return [];
}

function traced(
  history: readonly Int32Array[],
  { n, m, from, withFrom }: { n: number; m: number; from: number; withFrom: number },
): Pair[] {
  const found: Pair[] = [];
  let [x, y] = [n, m];
  for (let d = history.length - 1; d >= 0; d -= 1) {
    const at = (k: number): number => history[d]?.[k + d + 1] ?? 0;
    const k = x - y;
    const down = k === -d || (k !== d && at(k - 1) < at(k + 1));
    const before = d === 0 ? 0 : down ? k + 1 : k - 1;
    const x0 = d === 0 ? 0 : at(before);
    const y0 = d === 0 ? 0 : x0 - before;
    // The end of the step itself, which is one line of one side.
    const [endX, endY] = d === 0 ? [-1, -1] : [x0 + (down ? 0 : 1), y0 + (down ? 1 : 0)];
    while (x > x0 && y > y0 && !(x === endX && y === endY)) {
      [x, y] = [x - 1, y - 1];
      found.push([from + x, withFrom + y]);
    }
    [x, y] = [x0, y0];
  }
  return found.toReversed();
}
