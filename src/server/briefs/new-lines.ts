import { bytes, most } from '../../shared/domain/bounds.ts';
import { lineIndex } from '../streams/line-index.ts';
import { piecesOf } from '../streams/search.ts';
import { emptySet, type HashSet } from './hash-set.ts';
import type { FailedStep } from './failed-step.ts';
import { briefThread, type LogParts, type Run } from './line-hashes.ts';
import {
  around,
  mostOfRank,
  mostSeen,
  ranks,
  type NewLine,
  type NewLinesTask,
  type Rank,
  type ShownLine,
} from './tasks.ts';

export interface NewLines {
  /** In the order of the log. */
  found: NewLine[];
  /** The last lines of the output. */
  last: ShownLine[];
  isComplete: boolean;
}

interface Wanted {
  account: bigint;
  signal: AbortSignal;
  /** The lines of passed runs. */
  passed: HashSet[];
}

/** How much of a long log is read at its beginning. The rest of what is read is its end. */
const headShare = 1 / 4;

/** The lines of a build's output that no passed run has. */
export async function newLinesOf(
  parts: LogParts,
  build: Run,
  step: FailedStep | undefined,
  { account, signal, passed }: Wanted,
): Promise<NewLines> {
  const index = await lineIndex(parts, build.id);
  if (!index || index.total === 0) return { found: [], last: [], isComplete: true };
  const thread = briefThread(parts.database);
  let { set: known } = await thread.ask(
    account,
    { kind: 'join', all: passed },
    passed.map(({ buffer }) => buffer),
  );
  let [seen, seenCount] = [emptySet(mostSeen), 0];
  const size = Number(index.log.size);
  const output = outputOf(build, size);
  const skipped = { from: bytes.comparedLog * headShare, to: size - bytes.comparedLog * (1 - headShare) };
  const kept = new Map<Rank, NewLine[]>(ranks.map((rank) => [rank, []]));
  let [last, open, isComplete]: [ShownLine[], NewLine[], boolean] = [[], [], true];
  for await (const { first, offset, bytes: piece } of piecesOf(parts, index, 1, index.total)) {
    signal.throwIfAborted();
    if (offset + piece.length <= output.from || offset >= output.to) continue;
    if (offset > skipped.from && offset + piece.length < skipped.to) {
      isComplete = false;
      [last, open] = [[], []];
      continue;
    }
    const task: NewLinesTask = {
      kind: 'new',
      bytes: piece,
      first,
      known,
      seen,
      seenCount,
      step: { from: step?.from ?? 1, to: step?.to ?? Infinity },
      output: { from: output.from - offset, to: output.to - offset },
    };
    const answer = await thread.ask(account, task, [piece.buffer, known.buffer, seen.buffer]);
    ({ known, seen, seenCount } = answer);
    isComplete &&= !answer.hasMore;
    // Lines around a new one may be in the piece before or after.
    for (const line of open) line.after.push(...answer.head.slice(0, around - line.after.length));
    for (const line of answer.found)
      if (line.number < first + around) line.before.unshift(...last.slice(line.before.length - around));
    open = answer.found.filter(({ after }) => after.length < around);
    last = [...last, ...answer.tail].slice(-most.lastLines);
    for (const line of answer.found) isComplete = keep(kept.get(line.rank) as NewLine[], line) && isComplete;
  }
  return { found: Array.from(kept.values()).flat(), last, isComplete };
}

/** Before and after the commands' output are the runner's own lines. They tell more if the commands did not run. */
function outputOf(
  { build_state: state, output_from: from, output_to: to }: Run,
  size: number,
): { from: number; to: number } {
  if (state === 'errored' || from === null || to === null || to <= from) return { from: 0, to: size };
  return { from: Number(from), to: Number(to) };
}

/** Keeps the first and the last ones. */
function keep(list: NewLine[], line: NewLine): boolean {
  list.push(line);
  if (list.length <= 2 * mostOfRank) return true;
  list.splice(mostOfRank, 1);
  return false;
}
