import { onBoth, postgresOver } from './support/databases.ts';
import { compare, type Target } from './support/load.ts';
import type { Benchmark } from './support/report.ts';
import { call, startHeadrace, type Service } from './support/servers.ts';

/** Answered requests per second, each with a check of credentials and rights and a query. */
export const reads: Benchmark = {
  name: 'reads',
  async run(databases) {
    await using stack = new AsyncDisposableStack();
    const { sqlite, postgres } = await onBoth(databases, async (settings) => {
      const service = await startHeadrace(undefined, settings);
      stack.defer(() => service.stop());
      return projectOf(service);
    });
    const [ours = 0, onPostgres = 0] = await compare([sqlite, postgres]);
    return [
      postgresOver(
        { sqlite: ours, postgres: onPostgres },
        { what: 'GET /projects/ID', limit: { atLeast: 0.3 }, unit: '/s' },
      ),
    ];
  },
};

async function projectOf(service: Service): Promise<Target> {
  const form = { name: 'bench', repository_url: 'git@example.org:bench.git' };
  const project = await call<{ id_str: string }>(service, '/projects', form);
  return { url: `${service.url}/projects/${project.id_str}`, headers: { authorization: service.authorization } };
}
