import { setTimeout as pause } from 'node:timers/promises';
import type { Call } from '../api/call.ts';
import { accountRoute, projectRoute } from '../api/route.ts';
import { projectsSeenBy } from '../auth/projects.ts';
import type { Queries } from '../db/open.ts';
import { isUnavailable } from '../db/unavailable.ts';
import type { StreamAnswer } from '../http/route.ts';
import { projectTopic, subjectTopic } from '../lifecycle/write-context.ts';
import { changesRecord } from '../../shared/records/overview.ts';
import { withKeepAlive } from '../streams/firehose.ts';
import { logTopic } from '../streams/logs.ts';
import { readAgainMs } from '../streams/tail.ts';

/**
 * One stream for all tabs of a user, and one for each public project that a tab of a stranger shows. It reports changed projects and dependencies, and builds with new output, steps or
 * files. It carries no content: the page reloads and takes the differences. So each thing is rendered in one place, and
 * a client catches up the same way after an interruption.
 */

/** The least time between queries, so a busy project is not queried for every line of output. */
const breathMs = 400;

interface Seen {
  projects: Map<string, bigint>;
  running: Map<string, { project: string; size: bigint; steps: string }>;
  /** Finished builds whose runners still upload files. */
  uploads: Map<string, bigint>;
  dependencies: Map<string, bigint>;
}

/** The projects and the account whose changes are reported. */
interface Watched {
  visible: ReturnType<typeof projectsSeenBy>;
  account: bigint | undefined;
}

type Watching = { db: Queries } & Pick<Call, 'subscriptions' | 'signal'>;

async function* changes({ db, subscriptions, signal }: Watching, watched: Watched): AsyncGenerator<string> {
  let known = await readSeen(db, watched);
  // This event makes a client reload once after an interruption.
  yield 'retry: 2000\nevent: hello\ndata: {}\n\n';
  while (!signal.aborted) {
    using watch = subscriptions.watch(...topicsOf(known));
    try {
      const seen = await readSeen(db, watched);
      const news = differences(known, seen);
      known = seen;
      if (news) {
        yield `event: change\ndata: ${JSON.stringify(news)}\n\n`;
        await pause(breathMs, undefined, { signal }).catch(() => {});
        continue; // the last changes may have added something to watch
      }
    } catch (error) {
      if (!isUnavailable(error)) throw error; // continues when the database is back
    }
    await watch.changed(readAgainMs, signal);
  }
}

function streamed(call: Watching, watched: Watched): StreamAnswer {
  return {
    contentType: 'text/event-stream; charset=utf-8',
    body: withKeepAlive(changes(call, watched), ': still here\n\n'),
  };
}

function topicsOf({ projects, running, dependencies }: Seen): string[] {
  return [
    ...Array.from(projects.keys(), (id) => projectTopic(BigInt(id))),
    ...Array.from(running.keys(), (id) => logTopic(BigInt(id))),
    ...Array.from(dependencies.keys(), (id) => subjectTopic(BigInt(id))),
  ];
}

async function readSeen(db: Queries, { visible, account }: Watched): Promise<Seen> {
  const projects = await visible.select(['p.id', 'p.last_event']).execute();
  // The query starts with the claimed jobs. SQLite keeps this order only in cross joins, and would otherwise read all
  // builds.
  const running = await db
    .selectFrom('jobs as j')
    .crossJoin('builds as b')
    .crossJoin('logs as l')
    .select(['b.id', 'b.project_id', 'b.steps', 'l.size'])
    .where('j.claim', 'is not', null)
    .whereRef('b.id', '=', 'j.subject_id')
    .whereRef('l.id', '=', 'b.id')
    .where('b.project_id', 'in', visible.select('p.id'))
    .execute();
  const uploads = await db
    .selectFrom('uploads as u')
    .crossJoin('builds as b')
    .select(['u.id', 'u.created_at'])
    .whereRef('b.id', '=', 'u.id')
    .where('b.project_id', 'in', visible.select('p.id'))
    .execute();
  const owned = db.selectFrom('dependencies').select(['id', 'last_event']);
  const dependencies = account === undefined ? [] : await owned.where('owner_id', '=', account).execute();
  return {
    projects: new Map(projects.map((row) => [String(row.id), row.last_event])),
    running: new Map(
      running.map(({ id, project_id: project, ...row }) => [String(id), { project: String(project), ...row }]),
    ),
    uploads: new Map(uploads.map((row) => [String(row.id), row.created_at])),
    dependencies: new Map(dependencies.map((row) => [String(row.id), row.last_event])),
  };
}

function differences(before: Seen, now: Seen): object | undefined {
  const projects = differing(before.projects, now.projects);
  const dependencies = differing(before.dependencies, now.dependencies);
  const running = [...now.running];
  const spoke = running.filter(([id, { size }]) => before.running.get(id)?.size !== size);
  const logs = [...new Set(spoke.map(([, { project }]) => project))];
  const stepped = running.filter(([id, { steps }]) => before.running.get(id)?.steps !== steps).map(([id]) => id);
  const builds = [...stepped, ...differing(before.uploads, now.uploads)];
  const news = { projects, logs, builds, dependencies };
  return Object.values(news).some((ids) => ids.length > 0) ? news : undefined;
}

function differing(before: Map<string, bigint>, now: Map<string, bigint>): string[] {
  const changed = [...now.keys()].filter((id) => before.get(id) !== now.get(id));
  return [...changed, ...[...before.keys()].filter((id) => !now.has(id))];
}

export const routes = [
  accountRoute({
    method: 'GET',
    path: '/changes',
    access: 'both',
    scope: 'never',
    summary: 'Follow which of your projects and dependencies change, and which builds write logs or progress',
    streams: ['text/event-stream'],
    answer: changesRecord,
    handle: async (call) => streamed(call, { visible: projectsSeenBy(call.db, call.caller), account: call.caller.id }),
  }),
];

/** For pages of a project that only the public sees. */
export const projectChanges = projectRoute({
  method: 'GET',
  path: '/projects/:project_id/changes',
  access: 'public',
  scope: 'never',
  summary: 'Follow whether a project changes, and which of its builds write logs or progress',
  streams: ['text/event-stream'],
  answer: changesRecord,
  handle: async (call) => {
    const visible = call.db.selectFrom('projects as p').where('p.id', '=', call.project.id);
    return streamed(call, { visible, account: undefined });
  },
});
