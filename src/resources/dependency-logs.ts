import { accountRoute } from '../api/route.ts';
import { text } from '../http/fields.ts';
import * as schema from '../http/schema.ts';
import { loadDependency } from './dependency-views.ts';
import { plainOffset, streams, tailOf } from './firehoses.ts';
import { followedDependency } from './followed.ts';
import { bytesOf, logAnswer, logRange, textOf } from './logs.ts';

/** What the compile of a dependency's newest archive said. */
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
    query: { offset: text({ max: 15, pattern: plainOffset }) },
    streams,
    answer: schema.string,
    load: loadDependency,
    handle: async (call) => tailOf(call, followedDependency(call.db, call.dependency.id)),
  }),
];
