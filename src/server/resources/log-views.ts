import type { Call, WithCaller } from '../api/call.ts';
import { flag, text, wholeNumber } from '../../shared/records/fields.ts';
import type { StreamAnswer } from '../http/route.ts';
import { failureExpression, markOf } from '../streams/failures.ts';
import { outlineOf } from '../streams/outline.ts';
import { withKeepAlive } from '../streams/firehose.ts';
import { growthOf } from '../streams/growth.ts';
import { lineIndex } from '../streams/line-index.ts';
import { isExpression } from '../streams/line-matcher.ts';
import { lineNumber, readLines } from '../streams/lines.ts';
import { logMatchesRecord, logOutlineRecord, logViewRecord } from '../../shared/records/log.ts';
import { string } from '../../shared/records/schema.ts';
import { line, searchFairly, unlessBusy, type LineCall } from './log-lines.ts';
import { shared, type Logged } from './logs.ts';

/** Routes below `/ui/data` for our log viewer. They add styles, groups, positions of matches and growth. */

/** The viewer shows only the beginning of a longer line. */
const longestLine = 4096;

const viewQuery = () => ({ from: line(), limit: wholeNumber({ min: 1, max: 1000, fallback: 200 }) });

async function viewOf(call: LineCall, id: bigint, { from, limit }: { from: number; limit: number }) {
  const index = await lineIndex(call, id);
  if (!index) return { from: 1, total: 0, complete: true, style: '', group: 0, lines: [] };
  const first = lineNumber(from, index.total);
  const wanted = { from: first, limit, longestLine, longestAnswer: 1024 * 1024 };
  const { lines, before } = await readLines(call, index, wanted);
  return {
    from: first,
    total: index.total,
    complete: index.log.complete === 1,
    style: before.style,
    group: before.group,
    lines: lines.map(({ number, at, text: content, isCut }) => ({
      number,
      at,
      text: content,
      cut: isCut,
      mark: markOf(content),
    })),
  };
}

const outlineQuery = () => ({ from: line() });

/** A page waits this long for a log that has no stored outline. */
const outlineMs = 150;

async function outlineFor(call: LineCall & Pick<Call, 'searches'> & WithCaller, id: bigint, from: number) {
  const index = await lineIndex(call, id);
  if (!index) return { groups: [], failure: null, complete: true };
  const wanted = { account: call.caller.id, milliseconds: outlineMs };
  const { groups, failures, failuresTo } = await outlineOf(call, index, wanted).catch(unlessBusy);
  const failure = failures.find((number) => number >= from) ?? null;
  return { groups, failure, complete: failure !== null || failuresTo >= index.total };
}

const matchesQuery = () => ({
  q: text('expression', { check: isExpression }),
  /** Searches for lines that report a failure, instead of a text. */
  failures: flag(),
  from: line(),
  to: wholeNumber({ min: 1, max: Number.MAX_SAFE_INTEGER, fallback: Number.MAX_SAFE_INTEGER }),
  limit: wholeNumber({ min: 1, max: 5000, fallback: 500 }),
});

interface MatchesWanted {
  q: string;
  failures: boolean;
  from: number;
  to: number;
  limit: number;
}

async function matchesIn(call: LineCall & Pick<Call, 'searches'> & WithCaller, id: bigint, wanted: MatchesWanted) {
  const index = await lineIndex(call, id);
  const expression = wanted.failures ? failureExpression : wanted.q;
  if (!index || expression === '') return { matches: [], complete: true, next: null };
  const from = lineNumber(wanted.from, index.total);
  const search = { expression, from, to: wanted.to, limit: wanted.limit, account: call.caller.id };
  const { matches, complete, next } = await searchFairly(call, index, search);
  return { matches: matches.map(({ number, ranges }) => ({ number, ranges })), complete, next };
}

const eventStream = 'text/event-stream';

function growing(call: Pick<Call, 'subscriptions' | 'signal'> & LineCall, id: bigint): StreamAnswer {
  const events = async function* (): AsyncGenerator<string> {
    yield 'retry: 1000\n\n';
    for await (const growth of growthOf(call, id, call.signal)) yield `data: ${JSON.stringify(growth)}\n\n`;
  };
  return { contentType: `${eventStream}; charset=utf-8`, body: withKeepAlive(events(), ': still here\n\n') };
}

export function logViewRoutes<const Path extends string, Context extends WithCaller>(
  all: readonly Logged<Path, Context>[],
) {
  return all.flatMap((logged) => {
    const { route, path, name } = logged;
    const common = { ...shared(logged), summary: `Shows the log of ${name}` };
    return [
      route({
        ...common,
        path: `${path}/log/outline`,
        query: outlineQuery(),
        answer: logOutlineRecord,
        handle: async (call) => outlineFor(call, await logged.findLog(call), call.query.from),
      }),
      route({
        ...common,
        path: `${path}/log/view`,
        query: viewQuery(),
        answer: logViewRecord,
        handle: async (call) => viewOf(call, await logged.findLog(call), call.query),
      }),
      route({
        ...common,
        path: `${path}/log/matches`,
        query: matchesQuery(),
        answer: logMatchesRecord,
        handle: async (call) => matchesIn(call, await logged.findLog(call), call.query),
      }),
      route({
        ...common,
        path: `${path}/log/growth`,
        streams: [eventStream],
        answer: string,
        handle: async (call) => growing(call, await logged.findLog(call)),
      }),
    ];
  });
}
