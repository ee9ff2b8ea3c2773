import { accountRoute } from '../api/route.ts';
import { text } from '../records/fields.ts';
import { eventRecord, logLinesRecord, logRecord, logSearchRecord } from '../records/log.ts';
import { string } from '../records/schema.ts';
import { loadDependency } from './dependency-views.ts';
import { plainOffset, streams, tailOf } from './firehoses.ts';
import { followedDependency } from './followed.ts';
import { linesOf, linesQuery, matchesOf, searchQuery } from './log-lines.ts';
import { bytesOf, logRange, textOf } from './logs.ts';

/** The log of the compile of a dependency's newest archive. */
export const routes = [
  accountRoute({
    method: 'GET',
    path: '/dependencies/:dependency_id/log',
    access: 'users',
    scope: 'dependencies',
    summary: 'Read a part of the log of the newest compile as text; offsets and the limit count bytes',
    query: logRange(),
    answer: logRecord,
    load: loadDependency,
    handle: (call) => textOf(call, call.dependency.id, call.query),
  }),
  accountRoute({
    method: 'GET',
    path: '/dependencies/:dependency_id/log/lines',
    access: 'users',
    scope: 'dependencies',
    summary: 'Read lines of the log of the newest compile',
    query: linesQuery(),
    answer: logLinesRecord,
    load: loadDependency,
    handle: (call) => linesOf(call, call.dependency.id, call.query),
  }),
  accountRoute({
    method: 'GET',
    path: '/dependencies/:dependency_id/log/search',
    access: 'users',
    scope: 'dependencies',
    summary: 'Search the log of the newest compile line by line',
    query: searchQuery(),

    answer: logSearchRecord,
    load: loadDependency,
    handle: (call) => matchesOf(call, call.dependency.id, call.query),
  }),
  accountRoute({
    method: 'GET',
    path: '/dependencies/:dependency_id/log.txt',
    access: 'users',
    scope: 'dependencies',
    summary: 'Read the log of the newest compile byte for byte; a range of it where one is asked for',
    streams: ['text/plain'],
    hasRanges: true,
    answer: string,
    load: loadDependency,
    handle: (call) => bytesOf(call, call.dependency.id),
  }),
  accountRoute({
    method: 'GET',
    path: '/dependencies/:dependency_id/firehose',
    access: 'users',
    scope: 'dependencies',
    summary: 'Follow a dependency and its compile live, from the start of the log or from an offset',
    query: {
      offset: text('position', {
        pattern: plainOffset,
        description: 'From where to go on: the identifier of the last event',
      }),
    },
    streams,
    hasEvents: true,
    answer: eventRecord,
    load: loadDependency,
    handle: async (call) => tailOf(call, (id) => followedDependency(call.db, id), call.dependency.id),
  }),
];
