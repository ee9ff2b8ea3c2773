import { accountRoute } from '../api/route.ts';
import { runnersNow, type RunnerNow } from '../auth/runner-visits.ts';
import * as schema from '../http/schema.ts';
import { timestampOrNull } from '../lib/timestamps.ts';
import { idTwin, twin } from './common.ts';

const answer = schema.record({
  name: schema.string,
  kind: { type: 'string', enum: ['local', 'remote'] },
  state: { type: 'string', enum: ['idle', 'busy', 'away', 'failing'] },
  draining: schema.boolean,
  trouble: schema.string,
  version: schema.string,
  last_seen_at: schema.nullable(schema.dateTime),
  accounts: schema.listOf(schema.string),
  tags: schema.listOf(schema.string),
  work: schema.listOf(schema.record({ kind: schema.string, ...idTwin, account: schema.string })),
});

function view(runner: RunnerNow): object {
  const { name, isLocal, isDraining, state, trouble, version, seenAt, accounts, tags, work } = runner;
  return {
    name,
    kind: isLocal ? 'local' : 'remote',
    state,
    draining: isDraining,
    trouble,
    version,
    last_seen_at: timestampOrNull(seenAt),
    accounts,
    tags,
    work: work.map(({ kind, subjectId, account }) => ({ kind, ...twin('id', subjectId), account })),
  };
}

/** Runners are recorded when they call (auth/runner-visits.ts). Here they are only shown. */
export const routes = [
  accountRoute({
    method: 'GET',
    path: '/runners',
    access: 'operators',
    scope: 'user',
    summary: 'List the runners, with those on the servers’ own machines, and the work of each',
    answer: schema.listOf(answer),
    handle: async ({ database }) => (await runnersNow(database)).map(view),
  }),
];
