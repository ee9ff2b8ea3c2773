import { answerTasks } from '../../shared/lib/worker-thread.ts';
import { LineMatcher } from './line-matcher.ts';
import type { SearchAnswer, SearchTask } from './search.ts';

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

function answer({ expression, bytes, limit, milliseconds }: SearchTask): SearchAnswer {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
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

answerTasks(answer);
