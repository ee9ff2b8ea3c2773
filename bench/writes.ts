import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { requestsPerSecond } from './support/load.ts';
import { median, round, type Benchmark } from './support/report.ts';
import { call, startHeadrace } from './support/servers.ts';

/** How many of the durable commits that the disk allows reach a caller over HTTPS. */
export const writes: Benchmark = {
  name: 'writes',
  async run() {
    const dataDir = mkdtempSync(join(tmpdir(), 'headrace-bench-'));
    const service = await startHeadrace(dataDir);
    try {
      const form = { name: 'bench', repository_url: 'git@example.org:bench.git' };
      const project = await call<{ id_str: string }>(service, '/projects', form);
      let suites = 0;
      const target = {
        url: `${service.url}/projects/${project.id_str}/suites`,
        method: 'POST' as const,
        headers: { authorization: service.authorization, 'content-type': 'application/x-www-form-urlencoded' },
        body: () => `name=suite-${(suites += 1)}&command=make+test`,
      };
      await requestsPerSecond(target, 32, 2);
      const ours: number[] = [];
      const bare: number[] = [];
      for (let turn = 0; turn < 5; turn += 1) {
        ours.push(await requestsPerSecond(target, 32, 3));
        bare.push(commitsPerSecond(join(dataDir, 'headrace.db'), BigInt(project.id_str)));
      }
      const value = median(ours) / median(bare);
      const from = `${round(median(ours))}/s against ${round(median(bare))} bare commits/s`;
      return [{ what: 'POST …/suites, share of bare durable commits', value, limit: { atLeast: 0.4 }, from }];
    } finally {
      await service.stop();
      rmSync(dataDir, { recursive: true, force: true });
    }
  },
};

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
