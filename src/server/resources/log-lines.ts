import type { Call, WithCaller } from '../api/call.ts';
import type { Queries } from '../db/open.ts';
import { ApiError } from '../../shared/errors.ts';
import { described, digitsIn, required, text, wholeNumber, type Field } from '../../shared/records/fields.ts';
import { lineIndex } from '../streams/line-index.ts';
import { isExpression } from '../streams/line-matcher.ts';
import { lineNumber, readLines } from '../streams/lines.ts';
import { searchLog, type SearchResult } from '../streams/search.ts';
import { BusyThreadError } from '../../shared/lib/worker-thread.ts';

const most = 5000;
const furthest = 999_999_999_999_999;
const megabyte = 1024 * 1024;

/** A line number from 1. Negative numbers count from the end. */
export function line(): Field<number> {
  return {
    ...wholeNumber({ min: 1, max: furthest, fallback: 1 }),
    schema: {
      type: 'integer',
      anyOf: [
        { minimum: 1, maximum: furthest },
        { minimum: -furthest, maximum: -1 },
      ],
      default: 1,
      description: 'The first line, counted from 1; negative numbers count from the end',
    },
    parse(raw) {
      const value = /^-?[0-9]{1,15}$/.test(digitsIn(raw)) ? Number(digitsIn(raw)) : 0;
      if (value === 0) throw new ApiError('invalid_format');
      return value;
    },
  };
}

const limit = () => described(wholeNumber({ min: 1, max: most, fallback: 500 }), 'The most to return');

export const linesQuery = () => ({ from: line(), limit: limit() });

export const searchQuery = () => ({
  q: required(text('expression', { check: isExpression, description: 'a regular expression in the syntax of RE2' })),
  from: line(),
  limit: limit(),
});

export type LineCall = Pick<Call, 'blobs'> & { db: Queries };

/** The rest of a longer line can be read by its offset. */
const longest = { longestLine: megabyte, longestAnswer: 4 * megabyte };

export async function linesOf(storage: LineCall, id: bigint, { from, limit: wanted }: { from: number; limit: number }) {
  const index = await lineIndex(storage, id);
  if (!index) return { from: Math.max(1, from), total: 0, complete: true, lines: [] };
  const first = lineNumber(from, index.total);
  const { lines } = await readLines(storage, index, { from: first, limit: wanted, ...longest });
  return {
    from: first,
    total: index.total,
    complete: index.log.complete === 1,
    lines: lines.map(({ number, offset, at, text: content }) => ({ number, offset, at, text: content })),
  };
}

export async function matchesOf(
  call: LineCall & Pick<Call, 'searches'> & WithCaller,
  id: bigint,
  { q: expression, from, limit: wanted }: { q: string; from: number; limit: number },
) {
  const index = await lineIndex(call, id);
  if (!index) return { matches: [], complete: true, next: null };
  const search = { expression, from: lineNumber(from, index.total), limit: wanted, account: call.caller.id };
  const { matches, complete, next } = await searchFairly(call, index, search);
  return {
    matches: matches.map(({ number, offset, text: content }) => ({ number, offset, text: content })),
    complete,
    next,
  };
}

/** Reports a retryable error if the caller has too many searches. */
export async function searchFairly(...search: Parameters<typeof searchLog>): Promise<SearchResult> {
  return searchLog(...search).catch(unlessBusy);
}

export function unlessBusy(error: unknown): never {
  throw error instanceof BusyThreadError ? new ApiError('resource_temporary_unavailable') : error;
}
