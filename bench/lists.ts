import { sql } from 'kysely';
import { openDatabase } from '../src/server/db/open.ts';
import { onBoth, type DatabaseName } from './support/databases.ts';
import { compare } from './support/load.ts';
import { round, type Benchmark, type Figure } from './support/report.ts';
import { call, startHeadrace, type Service } from './support/servers.ts';

/** A list that grows without limit must take the same time with a million rows as with a thousand. */
export const lists: Benchmark = {
  name: 'lists',
  async run(databases) {
    const { sqlite, postgres } = await onBoth(databases, async (settings, name) => {
      const service = await startHeadrace(undefined, settings);
      try {
        return await measure(service, name);
      } finally {
        await service.stop();
      }
    });
    return [sqlite, postgres];
  },
};

async function measure(service: Service, name: DatabaseName): Promise<Figure> {
  const make = (project: string): Promise<{ id_str: string }> =>
    call(service, '/projects', { name: project, repository_url: 'git@example.org:bench.git' });
  const [small, large] = [await make('small'), await make('large')];
  await fill(service.databaseUrl, [
    { project: small.id_str, rows: 1000, from: 0 },
    { project: large.id_str, rows: 1_000_000, from: 1000 },
  ]);
  const headers = { authorization: service.authorization };
  const target = (project: { id_str: string }) => ({
    url: `${service.url}/projects/${project.id_str}/build_requests`,
    headers,
  });
  const [few = 0, many = 0] = await compare([target(small), target(large)], 5, 8);
  return {
    what: `GET …/build_requests on ${name}, time on a large table over a small one`,
    value: few / many,
    limit: { atMost: 1.2 },
    from: `${round(many)}/s on 1,000,000 rows against ${round(few)}/s on 1,000`,
  };
}

/** Writes rows directly into the database: a million requests would measure something else. */
async function fill(url: string, batches: { project: string; rows: number; from: number }[]): Promise<void> {
  const db = await openDatabase({ url });
  for (const { project, rows, from } of batches) {
    await db.transaction((trx) =>
      sql`
        insert into build_requests (id, project_id, commit_ref, build_state, created_by, created_at)
        with recursive numbers (number) as (select 1 union all select number + 1 from numbers where number < ${sql.lit(rows)})
        select number + ${sql.lit(from)}, ${BigInt(project)}, 'main', 'passed', (select min(id) from users), 1700000000000
        from numbers
      `.execute(trx),
    );
  }
  // PostgreSQL does this automatically a minute after so many rows were written.
  if (db.kind === 'postgres') await sql`analyze build_requests`.execute(db.read);
  await db.close();
}
