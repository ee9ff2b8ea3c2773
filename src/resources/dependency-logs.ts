import { accountRoute } from '../api/route.ts';
import { text } from '../http/fields.ts';
import * as schema from '../http/schema.ts';
import { loadDependency } from './dependency-views.ts';
import { plainOffset, streams, tailOf } from './firehoses.ts';
import { followedDependency } from './followed.ts';
import { linesAnswer, linesOf, linesQuery, matchesOf, searchAnswer, searchQuery } from './log-lines.ts';
import { bytesOf, logAnswer, logRange, textOf } from './logs.ts';

/** The log of the compile of a dependency's newest archive. */
export const routes = [
  accountRoute({
    method: 'GET',
    path: '/dependencies/:dependency_id/log',
    access: 'users',
    scope: 'dependencies',
    summary: 'Read a part of the log of the newest compile as text; offsets and the limit count bytes',
    query: logRange(),
    answer: logAnswer,
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
    answer: linesAnswer,
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
    answer: searchAnswer,
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
    answer: schema.string,
    load: loadDependency,
    handle: (call) => bytesOf(call, call.dependency.id),
  }),
  accountRoute({
    method: 'GET',
    path: '/dependencies/:dependency_id/firehose',
    access: 'users',
    scope: 'dependencies',
    summary: 'Follow a dependency and its compile live, from the start of the log or from an offset',
    query: { offset: text('position', { pattern: plainOffset }) },
    streams,
    answer: schema.string,
    load: loadDependency,
    handle: async (call) => tailOf(call, followedDependency(call.db, call.dependency.id)),
  }),
];
