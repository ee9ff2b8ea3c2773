import { onBoth, postgresOver } from './support/databases.ts';
import { requestsPerSecond, type Target } from './support/load.ts';
import { median, type Benchmark } from './support/report.ts';
import { call, startHeadrace, type Service } from './support/servers.ts';

/** Answered writing requests per second, each answered once it is on the disk. */
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
      return target;
    });
    const ours: number[] = [];
    const onPostgres: number[] = [];
    for (let turn = 0; turn < 5; turn += 1) {
      ours.push(await requestsPerSecond(sqlite, 32, 3));
      onPostgres.push(await requestsPerSecond(postgres, 32, 3));
    }
    return [
      postgresOver(
        { sqlite: median(ours), postgres: median(onPostgres) },
        { what: 'POST …/suites', limit: { atLeast: 0.3 }, unit: '/s' },
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
