import { bytes, most } from '../../shared/domain/bounds.ts';
import type { LogDiffView } from '../../shared/records/brief.ts';
import { lineIndex, type LineIndex, type LineStorage } from '../streams/line-index.ts';
import { textsOf } from './line-texts.ts';
import type { LogDiff, Region } from './log-diff.ts';

type Hunk = LogDiffView['hunks'][number];
type Shown = Pick<LogDiffView, 'hunks' | 'complete'>;

/** Equal lines before and after those that differ. */
const around = 3;

interface Logs {
  id: bigint;
  withId: bigint;
}

/** The lines that differ, with equal lines around them, as far as they fit. */
export async function hunksOf(parts: LineStorage, { id, withId }: Logs, diff: LogDiff): Promise<Shown> {
  const [index, other] = [await lineIndex(parts, id), await lineIndex(parts, withId)];
  if (!index || !other) return { hunks: [], complete: diff.isComplete };
  const room = { lines: most.diffLines as number, bytes: bytes.diffText as number };
  const take = async (of: LineIndex, from: number, to: number): Promise<string[]> => {
    const texts = await textsOf(parts, of, from, Math.min(to, from + room.lines));
    room.lines -= texts.length;
    room.bytes -= texts.reduce((sum, { length }) => sum + length, 0);
    if (texts.length < to - from || room.bytes < 0) room.lines = 0;
    return texts;
  };
  const hunks: Hunk[] = [];
  for (const group of grouped(diff.regions)) {
    const [first, last] = [group[0] as Region, group.at(-1) as Region];
    const start = Math.min(around, first.from, first.withFrom);
    const hunk: Hunk = { from: first.from - start + 1, with_from: first.withFrom - start + 1, lines: [] };
    const equal = async (from: number, to: number, shift: number): Promise<void> => {
      for (const [at, text] of (await take(index, from, to)).entries())
        hunk.lines.push({ mark: ' ', number: from + at + 1, with_number: from + at + 1 + shift, text });
    };
    let at = first.from - start;
    for (const { from, to, withFrom, withTo } of group) {
      await equal(at, from, withFrom - from);
      for (const [line, text] of (await take(other, withFrom, withTo)).entries())
        hunk.lines.push({ mark: '-', number: null, with_number: withFrom + line + 1, text });
      for (const [line, text] of (await take(index, from, to)).entries())
        hunk.lines.push({ mark: '+', number: from + line + 1, with_number: null, text });
      at = to;
    }
    await equal(at, Math.min(at + around, index.total, at + other.total - last.withTo), last.withTo - last.to);
    hunks.push(hunk);
    if (room.lines <= 0) return { hunks, complete: false };
  }
  return { hunks, complete: diff.isComplete };
}

/** Regions whose equal lines between them are shown anyway are one hunk. */
function grouped(regions: readonly Region[]): Region[][] {
  const groups: Region[][] = [];
  for (const region of regions) {
    const last = groups.at(-1)?.at(-1);
    if (last && region.from - last.to <= 2 * around) groups.at(-1)?.push(region);
    else groups.push([region]);
  }
  return groups;
}
