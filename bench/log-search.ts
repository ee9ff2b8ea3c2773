import { join } from 'node:path';
import { sql } from 'kysely';
import { openFileBlobs, type Blobs } from '../src/server/db/blobs.ts';
import { openDatabase, type Database } from '../src/server/db/open.ts';
import { appendLog, beginLog, completeLog, findLog } from '../src/server/streams/logs.ts';
import { packLog } from '../src/server/streams/pack-log.ts';
import { createSearchThread } from '../src/server/streams/search.ts';
import { storeFilter } from '../src/server/streams/store-filter.ts';
import { onBoth } from './support/databases.ts';
import { median, round, type Benchmark, type Figure } from './support/report.ts';
import { call, startHeadrace, type Service } from './support/servers.ts';

const builds = 1000;
const size = 1024 * 1024;
const rare = 'the gate does not close';
const common = 'compiled module';

interface Found {
  total: number;
  complete: boolean;
}

/** Searches the logs of all builds of a project: 1,000 packed logs of 1 MB. */
export const logSearch: Benchmark = {
  name: 'log-search',
  async run(databases) {
    const { sqlite, postgres } = await onBoth(databases, async (settings, name) => {
      const service = await startHeadrace(undefined, settings);
      try {
        return await measure(service, name);
      } finally {
        await service.stop();
      }
    });
    return [...sqlite, ...postgres];
  },
};

async function measure(service: Service, name: string): Promise<Figure[]> {
  const form = { name: 'searched', repository_url: 'git@example.org:bench.git' };
  const { id_str: project } = await call<{ id_str: string }>(service, '/projects', form);
  const costs = await fill(service, project);
  const search = (expression: string): Promise<Found> =>
    call(service, `/projects/${project}/log_search?${new URLSearchParams({ expression }).toString()}`);
  /** Infinity for a search that was not complete. */
  const took = async (expression: string, total: number): Promise<number> => {
    const taken: number[] = [];
    for (let turn = 0; turn < 5; turn += 1) {
      const startedAt = performance.now();
      const found = await search(expression);
      taken.push(found.complete || total < 0 ? performance.now() - startedAt : Infinity);
      if (found.complete && total >= 0 && found.total !== total) throw new Error(`${expression}: ${found.total} found`);
    }
    return median(taken);
  };
  await search(common); // starts the threads
  const figure = (what: string, value: number, atMost: number): Figure => ({
    what: `search of ${builds} logs of 1 MB on ${name}, ${what}, ms`,
    value,
    limit: { atMost },
    from: 'median of 5',
  });
  return [
    figure('a line of one log', await took(rare, 1), 2000),
    figure('a line of all logs', await took(common, builds), 2000),
    figure('words that no log has', await took('nowhere to be seen', 0), 2000),
    // All three bytes of it are in every log, so every log is read.
    figure('a text whose parts are in all logs', await took('compiled modulecompiled', 0), 2000),
    figure('an expression without plain characters', await took(String.raw`^\d{3}\s\w+$`, -1), 2300),
    {
      what: `filter of a log on ${name}, size over the packed log`,
      value: costs.filters / costs.packed,
      limit: { atMost: 0.1 },
      from: `${round(costs.filters / builds / 1024)} kB against ${round(costs.packed / builds / 1024)} kB`,
    },
    {
      what: `filter of a log on ${name}, time over packing it`,
      value: costs.filterMs / costs.packMs,
      limit: { atMost: 1.5 },
      from: `${round(costs.filterMs / builds)} ms against ${round(costs.packMs / builds)} ms for 1 MB`,
    },
  ];
}

/** Writes rows and blobs directly: building all of it would take an hour. */
async function fill(service: Service, project: string) {
  const db = await openDatabase({ url: service.databaseUrl });
  const blobs = await openFileBlobs(join(service.dataDir, 'blobs'), {
    take: async () => {},
    room: async () => Infinity,
  });
  const searches = createSearchThread();
  const costs = { packMs: 0, filterMs: 0, packed: 0, filters: 0 };
  try {
    await addBuilds(db, BigInt(project));
    for (let id = 1n; id <= BigInt(builds); id += 1n) {
      await db.transaction(async (trx) => {
        await beginLog(trx, id, BigInt(project));
        await appendLog(db, trx, id, 0n, logOf(Number(id)));
        await completeLog(db, trx, id);
      });
      const beganAt = performance.now();
      await packLog(db, blobs, id);
      const packedAt = performance.now();
      await storeFilter({ db, blobs, searches }, id);
      costs.filterMs += performance.now() - packedAt;
      costs.packMs += packedAt - beganAt;
      costs.packed += await packedSize(db, blobs, id);
    }
    const filters = await db.read.selectFrom('log_indexes').select('filter').execute();
    costs.filters = filters.reduce((sum, { filter }) => sum + (filter?.length ?? 0), 0);
    return costs;
  } finally {
    await searches.close();
    await blobs.close();
    await db.close();
  }
}

async function packedSize(db: Database, blobs: Blobs, id: bigint): Promise<number> {
  await using blob = await blobs.open((await findLog(db.read, id))?.blob ?? '');
  return blob.size;
}

async function addBuilds(db: Database, project: bigint): Promise<void> {
  await db.transaction(async (trx) => {
    await sql`
      insert into commits (id, project_id, ref, version, build_state, message, scm_author_name, scm_author_email,
        scm_authored_date, scm_committer_name, scm_committer_email, scm_committed_date, branches, tags, files, branch)
      values (1, ${project}, '0123456789012345678901234567890123456789', 1, 'passed', 'A change', 'Ada', 'ada@example.org',
        '2026-03-01T10:00:00Z', 'Ada', 'ada@example.org', '2026-03-01T10:00:00Z', '["main"]', '[]', '["a"]', 'main')`.execute(
      trx,
    );
    await sql`
      insert into build_requests (id, project_id, commit_ref, commit_id, build_state, created_by, created_at, "fetch", branch)
      values (1, ${project}, 'main', 1, 'passed', (select min(id) from users), 1700000000000, 'done', 'main')`.execute(
      trx,
    );
    await sql`
      insert into builds (id, project_id, build_request_id, commit_id, suite_name, build_state, attempt, exit_status,
        failure_reason, created_at)
      with recursive numbers (number) as (select 1 union all select number + 1 from numbers where number < ${sql.lit(builds)})
      select number, ${project}, 1, 1, 'unit', 'passed', number, 0, '', 1700000000000 + number from numbers`.execute(
      trx,
    );
  });
}

const words =
  'compiled tested linked resolved fetched module server client package queue stream ok warning unused'.split(' ');

/** Lines like those of a build's log, with names and numbers of their own. */
function logOf(seed: number): Buffer {
  let state = seed;
  const random = (below: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
  const lines = [`${common} 1`];
  for (let length = 0; length < size;) {
    const some = Array.from({ length: 4 + random(8) }, () => words[random(words.length)]);
    const line = `${some.join(' ')} src/${random(2 ** 30).toString(36)}.ts:${random(2000)} (${random(5000)} ms)`;
    lines.push(line);
    length += line.length + 1;
  }
  if (seed === 137) lines.push(rare);
  return Buffer.from(`${lines.join('\n')}\n`);
}
