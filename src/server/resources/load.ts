import type { Database, Queries } from '../db/open.ts';
import { memoized } from '../db/memo.ts';
import { firstIdAt } from '../../shared/lib/ids.ts';
import { timestamp } from '../../shared/lib/timestamps.ts';
import type { Load } from '../../shared/records/installation.ts';

/**
 * Running and waiting builds of the last day, from the times of the builds: no samples are stored. Builds that wait for
 * an approval or a group do not count as waiting, because no runner could take them.
 */
const hour = 60 * 60 * 1000;
const shown = 24 * hour;
const step = hour / 4;
const steps = shown / step;
/** A build that began in the shown time was usually created at most this long before. */
const before = 24 * hour;
/** If there are more, the load before the oldest one is unknown and not shown. */
const mostBuilds = 5000;
const keptMs = 60_000;

interface Kept {
  at: number;
  load: Promise<Load> | undefined;
}

const newKept = (): Kept => ({ at: 0, load: undefined });

/** Operators' pages load again every few seconds, so the result is kept for a minute. */
export function recentLoad(database: Database, now = Date.now()): Promise<Load> {
  const kept = memoized(database, newKept);
  if (kept.load === undefined || Math.abs(now - kept.at) >= keptMs) {
    kept.at = now;
    kept.load = loadOf(database.read, now);
    kept.load.catch(() => (kept.load = undefined));
  }
  return kept.load;
}

interface BuildTimes {
  id: bigint;
  build_request_id: bigint;
  suite_name: string;
  created_at: bigint;
  started_at: bigint | null;
  finished_at: bigint | null;
  needs: string;
  approval: number;
  concurrency_group: string;
}

export async function loadOf(db: Queries, now: number): Promise<Load> {
  const end = Math.ceil(now / step) * step;
  const begin = end - shown;
  const columns = ['id', 'build_request_id', 'suite_name', 'created_at', 'started_at', 'finished_at'] as const;
  const builds = db.selectFrom('builds').select([...columns, 'needs', 'approval', 'concurrency_group']);
  const first = firstIdAt(begin - before);
  const recent: BuildTimes[] = await builds.where('id', '>=', first).orderBy('id', 'desc').limit(mostBuilds).execute();
  // Without a condition on the identifier, the database uses the index of unfinished builds.
  const unfinished: BuildTimes[] = await builds.where('finished_at', 'is', null).execute();
  const oldest = recent.length === mostBuilds ? Number(recent.at(-1)?.created_at ?? 0n) : begin;
  const skipped = Math.max(0, Math.min(steps, Math.ceil((oldest - begin) / step)));
  const [running, waiting] = [changes(), changes()];
  const known = recent.at(-1)?.id ?? first;
  const all = [...recent, ...unfinished.filter(({ id }) => id < known)];
  const ends = endsOf(all);
  for (const build of all) {
    const { started_at: started, finished_at: finished } = build;
    const over = finished === null ? Infinity : Number(finished);
    if (started !== null) running.add(Number(started), over);
    if (build.approval === 0 && build.concurrency_group === '')
      waiting.add(readyAt(build, ends), started === null ? over : Number(started));
  }
  return {
    since: timestamp(begin + skipped * step),
    step_seconds: step / 1000,
    running: running.mostPerStep(begin, now).slice(skipped),
    waiting: waiting.mostPerStep(begin, now).slice(skipped),
  };
}

/** The latest end of each suite in each request. */
function endsOf(builds: readonly BuildTimes[]): Map<string, number> {
  const ends = new Map<string, number>();
  for (const { build_request_id: request, suite_name: suite, finished_at: at } of builds) {
    const key = `${request} ${suite}`;
    ends.set(key, Math.max(ends.get(key) ?? 0, at === null ? Infinity : Number(at)));
  }
  return ends;
}

/** When it was created, or when the last suite that it needs ended. */
function readyAt(
  { build_request_id: request, created_at: created, needs }: BuildTimes,
  ends: Map<string, number>,
): number {
  const needed = needs === '[]' ? [] : (JSON.parse(needs) as string[]);
  return Math.max(Number(created), ...needed.map((suite) => ends.get(`${request} ${suite}`) ?? 0));
}

/** Counts what is there at once. */
function changes() {
  const all: { at: number; by: number }[] = [];
  return {
    add(from: number, to: number): void {
      if (to > from) all.push({ at: from, by: 1 }, { at: to, by: -1 });
    },
    /** Nothing is known of the time after `now`. */
    mostPerStep(begin: number, now: number): number[] {
      const most = Array.from({ length: steps }, () => 0);
      let [count, at] = [0, begin];
      const note = (until: number): void => {
        const last = Math.min(steps - 1, Math.ceil((until - begin) / step) - 1);
        for (let place = Math.floor((at - begin) / step); place <= last; place += 1)
          most[place] = Math.max(most[place] ?? 0, count);
        at = Math.max(at, until);
      };
      for (const change of all.toSorted((a, b) => a.at - b.at)) {
        if (change.at > now) break;
        if (change.at > at) note(change.at);
        count += change.by;
      }
      note(now);
      return most;
    },
  };
}
