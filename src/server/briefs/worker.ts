import { most } from '../../shared/domain/bounds.ts';
import { answerTasks } from '../../shared/lib/worker-thread.ts';
import { reportsFailure } from '../streams/failures.ts';
import { add, emptySet, has, type HashSet } from './hash-set.ts';
import { LineReader } from './line-reader.ts';
import {
  around,
  mostOfRank,
  mostSeen,
  ranks,
  type EndingTask,
  type HashesAnswer,
  type HashesTask,
  type JoinTask,
  type NewLine,
  type NewLinesAnswer,
  type NewLinesTask,
  type Rank,
  type ShownLine,
  type Task,
} from './tasks.ts';

function readerOf({ buffer, byteOffset, length }: Uint8Array<ArrayBuffer>): LineReader {
  return new LineReader(Buffer.from(buffer, byteOffset, length));
}

function addHashes({ set, count, most, bytes }: HashesTask): HashesAnswer {
  const lines = readerOf(bytes);
  let now = count;
  for (let at = 0; at < lines.count && now < most; at += 1) {
    const hash = lines.hash(at);
    if (hash !== 0 && add(set, hash)) now += 1;
  }
  return { set, count: now };
}

/** Most tools end with lines that are the same for all failures, so the lines that report one count too. */
const lastLines = 5;
const mostFailures = 20;

function endingOf({ bytes }: EndingTask): HashesAnswer {
  const lines = readerOf(bytes);
  const set = emptySet(lastLines + mostFailures);
  let count = 0;
  const take = (hash: number): void => {
    if (hash !== 0 && add(set, hash)) count += 1;
  };
  for (let at = lines.count - 1; at >= 0; at -= 1) {
    if (count >= lastLines) break;
    take(lines.hash(at));
  }
  for (let at = 0, left = mostFailures; at < lines.count && left > 0; at += 1) {
    if (!reportsFailure(lines.text(at))) continue;
    take(lines.hash(at));
    left -= 1;
  }
  return { set, count };
}

function join({ all }: JoinTask): HashesAnswer {
  const set = emptySet(all.reduce((sum, { length }) => sum + length, 0));
  let count = 0;
  for (const hashes of all) for (const hash of hashes) if (hash !== 0 && add(set, hash)) count += 1;
  return { set, count };
}

function findNew({ bytes, first, known, seen, seenCount, step, output }: NewLinesTask): NewLinesAnswer {
  const lines = readerOf(bytes);
  const kept = new Map<Rank, number[]>(ranks.map((rank) => [rank, []]));
  let [count, hasMore] = [seenCount, false];
  const begin = lines.starts.findIndex((start) => start >= output.from);
  let end = lines.count;
  while (end > 0 && (lines.starts[end - 1] as number) >= output.to) end -= 1;
  const start = begin < 0 ? end : begin;
  for (let at = start; at < end; at += 1) {
    const hash = lines.hash(at);
    if (hash === 0 || has(known, hash)) continue;
    const isRepeated = count < mostSeen ? !add(seen, hash) : has(seen, hash);
    if (!isRepeated && count < mostSeen) count += 1;
    const list = kept.get(isRepeated ? 'repeated' : rankOf(first + at, lines, at, step)) as number[];
    list.push(at);
    if (list.length <= 2 * mostOfRank) continue;
    list.splice(mostOfRank, 1);
    hasMore = true;
  }
  const shown = (at: number): ShownLine => ({ number: first + at, text: lines.text(at) });
  const some = (from: number, to: number): ShownLine[] => {
    const [one, other] = [Math.max(start, from), Math.min(end, to)];
    return Array.from({ length: Math.max(0, other - one) }, (_, at) => shown(one + at));
  };
  const found = [...kept].flatMap(([rank, list]) =>
    list.map((at): NewLine => ({
      ...shown(at),
      rank,
      before: some(at - around, at),
      after: some(at + 1, at + 1 + around),
    })),
  );
  const ends = { head: some(start, start + around), tail: some(end - most.lastLines, end) };
  return { known, seen, seenCount: count, found, ...ends, hasMore };
}

function rankOf(number: number, lines: LineReader, at: number, { from, to }: NewLinesTask['step']): Rank {
  if (number < from || number > to) return 'other';
  return reportsFailure(lines.text(at)) ? 'failure' : 'step';
}

const work = (task: Task): HashesAnswer | NewLinesAnswer => {
  if (task.kind === 'hashes') return addHashes(task);
  if (task.kind === 'ending') return endingOf(task);
  return task.kind === 'join' ? join(task) : findNew(task);
};

const setsOf = (answer: HashesAnswer | NewLinesAnswer): HashSet[] =>
  'set' in answer ? [answer.set] : [answer.known, answer.seen];

answerTasks(work, (answer) => setsOf(answer).map(({ buffer }) => buffer));
