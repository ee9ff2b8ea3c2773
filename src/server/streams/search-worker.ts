import { unpackAll } from '../../shared/lib/seekable-zstd.ts';
import { answerTasks } from '../../shared/lib/worker-thread.ts';
import { LineMatcher, visibleText } from './line-matcher.ts';
import { addToFilter, type Filter } from './log-filter.ts';
import type { FilterAnswer, FilterTask, PackedSearchTask, SearchAnswer, SearchTask } from './search.ts';

const matchers = new Map<string, LineMatcher>();
/** Expressions likely to be searched at once. */
const mostMatchers = 16;

function matcherOf(expression: string): LineMatcher {
  const known = matchers.get(expression) ?? new LineMatcher(expression);
  if (!matchers.has(expression) && matchers.size >= mostMatchers) matchers.clear();
  matchers.set(expression, known);
  return known;
}

/** Bytes of a line returned with a match. */
const longestTold = 16 * 1024;

function search({ expression, limit, milliseconds }: Omit<SearchTask, 'bytes'>, text: Buffer): SearchAnswer {
  const until = performance.now() + milliseconds;
  const { found, searched } = matcherOf(expression).search(text, limit, () => performance.now() > until);
  const matches = found.map(({ line, start, end, ranges }) => ({
    line,
    start,
    text: text.toString('utf8', start, Math.min(end, start + longestTold)),
    ranges,
  }));
  return { matches, searched };
}

function filtered(filter: Filter, text: Buffer): FilterAnswer {
  addToFilter(filter, visibleText(text));
  return { filter };
}

function bufferOf({ buffer, byteOffset, length }: Uint8Array<ArrayBuffer>): Buffer {
  return Buffer.from(buffer, byteOffset, length);
}

answerTasks((task: SearchTask | PackedSearchTask | FilterTask) => {
  const text = 'packed' in task ? unpackAll(bufferOf(task.packed)) : bufferOf(task.bytes);
  return 'filter' in task ? filtered(task.filter, text) : search(task, text);
});
