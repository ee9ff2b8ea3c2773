import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { compare } from './support/load.ts';
import { round, type Benchmark } from './support/report.ts';
import { call, startHeadrace } from './support/servers.ts';

/** A list that grows without end costs the same at a million rows as at a thousand. */
export const lists: Benchmark = {
  name: 'lists',
  async run() {
    const service = await startHeadrace();
    try {
      const make = (name: string): Promise<{ id_str: string }> =>
        call(service, '/projects', { name, repository_url: 'git@example.org:bench.git' });
      const [small, large] = [await make('small'), await make('large')];
      fill(join(service.dataDir, 'headrace.db'), [
        { project: small.id_str, rows: 1000 },
        { project: large.id_str, rows: 1_000_000 },
      ]);
      const headers = { authorization: service.authorization };
      const target = (project: { id_str: string }) => ({
        url: `${service.url}/projects/${project.id_str}/build_requests`,
        headers,
      });
      const [few = 0, many = 0] = await compare([target(small), target(large)], 5, 8);
      const from = `${round(many)}/s on 1,000,000 rows against ${round(few)}/s on 1,000`;
      return [
        {
          what: 'GET …/build_requests, time on a large table over a small one',
          value: few / many,
          limit: { atMost: 1.2 },
          from,
        },
      ];
    } finally {
      await service.stop();
    }
  },
};

/** Rows straight into the file: a million requests would measure something else. */
function fill(file: string, batches: { project: string; rows: number }[]): void {
  const database = new DatabaseSync(file, { timeout: 10_000, readBigInts: true });
  const user = database.prepare('select id from users limit 1').get()?.id ?? 0n;
  const insert = database.prepare(
    `insert into build_requests (id, project_id, commit_ref, build_state, created_by, created_at) values (?, ?, 'main', 'passed', ?, ?)`,
  );
  let id = 1n;
  database.exec('begin');
  for (const { project, rows } of batches) {
    for (let row = 0; row < rows; row += 1) {
      insert.run(id, BigInt(project), user as bigint, 1_700_000_000_000n);
      id += 1n;
    }
  }
  database.exec('commit');
  database.close();
}
