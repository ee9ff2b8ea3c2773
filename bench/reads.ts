import { onBoth, postgresOver } from './support/databases.ts';
import { compare, type Target } from './support/load.ts';
import { round, type Benchmark } from './support/report.ts';
import { call, startBare, startHeadrace, type Service } from './support/servers.ts';

/** How much of a bare route's speed is left when credentials, rights and the store stand before the answer. */
export const reads: Benchmark = {
  name: 'reads',
  async run(databases) {
    await using stack = new AsyncDisposableStack();
    const { sqlite, postgres } = await onBoth(databases, async (settings) => {
      const service = await startHeadrace(undefined, settings);
      stack.defer(() => service.stop());
      return { service, target: await projectOf(service) };
    });
    const { url, headers = {} } = sqlite.target;
    const bare = await startBare(sqlite.service, await (await fetch(url, { headers })).text());
    stack.defer(() => bare.stop());
    const targets = [sqlite.target, postgres.target, { url: `${bare.url}/bare` }];
    const [ours = 0, onPostgres = 0, limit = 0] = await compare(targets);
    return [
      {
        what: 'GET /projects/ID, share of a bare route',
        value: ours / limit,
        limit: { atLeast: 0.7 },
        from: `${round(ours)}/s against ${round(limit)}/s`,
      },
      postgresOver(
        { sqlite: ours, postgres: onPostgres },
        { what: 'GET /projects/ID', limit: { atLeast: 0.35 }, unit: '/s' },
      ),
    ];
  },
};

async function projectOf(service: Service): Promise<Target> {
  const form = { name: 'bench', repository_url: 'git@example.org:bench.git' };
  const project = await call<{ id_str: string }>(service, '/projects', form);
  return { url: `${service.url}/projects/${project.id_str}`, headers: { authorization: service.authorization } };
}
