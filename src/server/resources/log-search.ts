import type { Call, WithProject } from '../api/call.ts';
import { projectRoute } from '../api/route.ts';
import type { Queries } from '../db/open.ts';
import { described, identifier, refined, required, text, wholeNumber } from '../../shared/records/fields.ts';
import { projectLogSearchRecord } from '../../shared/records/log.ts';
import { timestamp } from '../../shared/lib/timestamps.ts';
import { isExpression } from '../streams/line-matcher.ts';
import { searchLogs } from '../streams/search-logs.ts';
import { withIdString } from './common.ts';
import { unlessBusy } from './log-lines.ts';

const mostBuilds = 1000;
/** A response after this time has the matches so far. */
const longestSearchMs = 2000;
const longestText = 4096;
/** The response names so many logs that could not be read. */
const mostUnreadable = 100;

/** In a query, a plus sign that was not escaped arrives as a space. */
const timestampForm = /^(\d{4}-\d\d-\d\d)(?:T(\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+ -]\d\d:\d\d))?$/;

function millisecondsOf(sent: string): number {
  const [, day, time = '00:00:00', zone = 'Z'] = timestampForm.exec(sent) ?? [];
  return Date.parse(`${day}T${time}${zone.replace(' ', '+')}`);
}

const query = () => ({
  expression: required(
    text('expression', {
      check: isExpression,
      description: 'A regular expression in the syntax of RE2, which a line matches',
    }),
  ),
  suite_id: described(identifier(), 'Only builds of this suite'),
  since: refined(
    text('time', {
      description: 'Only builds created at this time or later: a date, or a time with its offset from UTC',
    }),
    (sent) => (sent === '' || !Number.isNaN(millisecondsOf(sent)) ? sent : undefined),
  ),
  limit: described(wholeNumber({ min: 1, max: mostBuilds, fallback: 100 }), 'The most builds to return'),
});

type SearchCall = Pick<Call, 'blobs' | 'searches' | 'signal'> & { db: Queries } & WithProject & {
    query: { expression: string; suite_id: bigint | undefined; since: string; limit: number };
  };

/** Filters of the longest logs are large. */
const atOnce = 50;

interface Wanted {
  suite: bigint | undefined;
  since: bigint;
  before: bigint | undefined;
}

const findBuilds = (db: Queries, project: bigint, { suite, since, before }: Wanted) => {
  let builds = db
    .selectFrom('builds')
    .innerJoin('commits', 'commits.id', 'builds.commit_id')
    .innerJoin('logs', 'logs.id', 'builds.id')
    .leftJoin('log_indexes', 'log_indexes.log_id', 'builds.id')
    .select(['builds.id', 'suite_name', 'variant', 'builds.build_state', 'commit_id', 'commits.ref', 'filter'])
    .select('builds.created_at')
    .where('builds.project_id', '=', project)
    .where('builds.created_at', '>=', since);
  if (suite !== undefined) builds = builds.where('builds.suite_id', '=', suite);
  if (before !== undefined) builds = builds.where('builds.id', '<', before);
  return builds.orderBy('builds.id', 'desc').limit(atOnce).execute();
};

type BuildToSearch = Awaited<ReturnType<typeof findBuilds>>[number];

async function* newestFirst({ db, project, query: sent }: SearchCall): AsyncGenerator<BuildToSearch[]> {
  const since = BigInt(sent.since === '' ? 0 : millisecondsOf(sent.since));
  for (let before: bigint | undefined; ;) {
    const builds = await findBuilds(db, project.id, { suite: sent.suite_id, since, before });
    yield builds;
    if (builds.length < atOnce) return;
    before = builds.at(-1)?.id;
  }
}

async function search(call: SearchCall) {
  const { caller, signal, query: sent } = call;
  const over = AbortSignal.any([signal, AbortSignal.timeout(longestSearchMs)]);
  const wanted = { expression: sent.expression, account: caller.id, signal: over };
  const times: bigint[] = [];
  const builds = [];
  const unreadable: bigint[] = [];
  let isPartial = false;
  let reached: bigint | undefined;
  for await (const { log, found } of searchLogs(call, newestFirst(call), wanted)) {
    if (found === 'none') continue;
    if (found === 'late') reached = log.created_at;
    if (found === 'late' || found === 'unreadable') {
      isPartial = true;
      if (found === 'unreadable' && unreadable.length < mostUnreadable) unreadable.push(log.id);
      continue;
    }
    times.push(log.created_at);
    if (builds.length < sent.limit) builds.push(view(log, found));
  }
  const [last, first] = [times[0], times.at(-1)];
  return {
    total: times.length,
    first: first === undefined ? null : timestamp(first),
    last: last === undefined ? null : timestamp(last),
    complete: !isPartial,
    ...(isPartial && {
      unsearched: {
        last: reached === undefined ? null : timestamp(reached),
        builds: unreadable.map((id) => withIdString('build_id', id)),
      },
    }),
    builds,
  };
}

function view(build: BuildToSearch, { number, text: line }: { number: number; text: string }) {
  return {
    ...withIdString('build_id', build.id),
    suite_name: build.suite_name,
    variant: build.variant,
    build_state: build.build_state,
    ...withIdString('commit_id', build.commit_id),
    ref: build.ref,
    number,
    text: line.slice(0, longestText).toWellFormed(),
    created_at: timestamp(build.created_at),
  };
}

export const routes = [
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/log_search',
    access: 'viewer',
    scope: 'commits',
    summary:
      'Find the builds whose log has a line that matches, the newest first; total counts all of them, and unsearched ' +
      'tells which logs were not searched if the response is not complete',
    query: query(),
    endsWithCaller: true,
    answer: projectLogSearchRecord,
    handle: (call) => search(call).catch(unlessBusy),
  }),
];
