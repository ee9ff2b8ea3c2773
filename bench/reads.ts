import { compare } from './support/load.ts';
import { round, type Benchmark } from './support/report.ts';
import { call, startBare, startHeadrace } from './support/servers.ts';

/** How much of a bare route's speed is left when credentials, rights and the store stand before the answer. */
export const reads: Benchmark = {
  name: 'reads',
  async run() {
    const service = await startHeadrace();
    const form = { name: 'bench', repository_url: 'git@example.org:bench.git' };
    const project = await call<{ id_str: string }>(service, '/projects', form);
    const url = `${service.url}/projects/${project.id_str}`;
    const headers = { authorization: service.authorization };
    const body = await (await fetch(url, { headers })).text();
    const bare = await startBare(service, body);
    try {
      const [ours = 0, limit = 0] = await compare([{ url, headers }, { url: `${bare.url}/bare` }]);
      const from = `${round(ours)}/s against ${round(limit)}/s`;
      return [{ what: 'GET /projects/ID, share of a bare route', value: ours / limit, limit: { atLeast: 0.7 }, from }];
    } finally {
      await bare.stop();
      await service.stop();
    }
  },
};
