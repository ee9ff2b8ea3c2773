import { DatabaseSync } from 'node:sqlite';
import { onBoth, postgresOver } from './support/databases.ts';
import { requestsPerSecond, type Target } from './support/load.ts';
import { median, round, type Benchmark } from './support/report.ts';
import { call, startHeadrace, type Service } from './support/servers.ts';

/** How many of the durable commits that the disk allows reach a caller over HTTPS. */
export const writes: Benchmark = {
  name: 'writes',
  async run(databases) {
    await using stack = new AsyncDisposableStack();
    const { sqlite, postgres } = await onBoth(databases, async (settings) => {
      const service = await startHeadrace(undefined, settings);
      stack.defer(() => service.stop());
      const form = { name: 'bench', repository_url: 'git@example.org:bench.git' };
      const project = await call<{ id_str: string }>(service, '/projects', form);
      const target = suitesOf(service, project);
      await requestsPerSecond(target, 32, 2);
      return { service, project, target };
    });
    const ours: number[] = [];
    const onPostgres: number[] = [];
    const bare: number[] = [];
    for (let turn = 0; turn < 5; turn += 1) {
      ours.push(await requestsPerSecond(sqlite.target, 32, 3));
      onPostgres.push(await requestsPerSecond(postgres.target, 32, 3));
      bare.push(commitsPerSecond(sqlite.service.databaseUrl, BigInt(sqlite.project.id_str)));
    }
    return [
      {
        what: 'POST …/suites, share of bare durable commits',
        value: median(ours) / median(bare),
        limit: { atLeast: 0.4 },
        from: `${round(median(ours))}/s against ${round(median(bare))} bare commits/s`,
      },
      postgresOver(
        { sqlite: median(ours), postgres: median(onPostgres) },
        { what: 'POST …/suites', limit: { atLeast: 0.5 }, unit: '/s' },
      ),
    ];
  },
};

function suitesOf(service: Service, project: { id_str: string }): Target {
  let suites = 0;
  return {
    url: `${service.url}/projects/${project.id_str}/suites`,
    method: 'POST',
    headers: { authorization: service.authorization, 'content-type': 'application/x-www-form-urlencoded' },
    body: () => `name=suite-${(suites += 1)}&command=make+test`,
  };
}

/** The row that a request writes, one transaction and one flush each, over and over, with the same settings. */
function commitsPerSecond(file: string, project: bigint): number {
  const database = new DatabaseSync(file, { timeout: 10_000 });
  database.exec('pragma journal_mode = wal; pragma synchronous = full; pragma foreign_keys = on');
  const insert = database.prepare(
    'insert into suites (id, project_id, name, description, command) values (?, ?, ?, ?, ?)',
  );
  const startedAt = performance.now();
  let commits = 0;
  while (performance.now() - startedAt < 2000) {
    const id = BigInt(Date.now()) * 1_000_000n + BigInt(commits);
    insert.run(id, project, `bare-${id}`, '', 'make test');
    commits += 1;
  }
  const rate = (commits / (performance.now() - startedAt)) * 1000;
  database.close();
  return rate;
}
