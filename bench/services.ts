import { postgresImage } from '../test/support/postgres-image.ts';
import { startPostgres } from '../test/support/postgres.ts';
import { imageOf, shellLayer, startRegistry } from '../test/support/registry.ts';
import { startBuilding } from './support/building.ts';
import { median, round, type Benchmark } from './support/report.ts';
import { call } from './support/servers.ts';
import { timed } from './support/timed.ts';

const of = (field: string, value: string): [string, string] => [`services[0][${field}]`, value];

const turns = 25;

/** What a service costs its build, and what one that was filled before costs over a bare start of the same program. */
export const services: Benchmark = {
  name: 'services',
  async run(databases) {
    await using stack = new AsyncDisposableStack();
    const registry = await startRegistry();
    stack.defer(() => registry.close());
    const settings = { ...(await databases.settingsFor('SQLite')), HEADRACE_REGISTRY_ALLOW: '127.0.0.0/8' };
    const building = await startBuilding('true', settings);
    stack.defer(() => building.stop());
    const { service, path } = building;
    await call(service, '/registries', { host: registry.host, ...registry.user });
    const idle = await registry.push('idle', '1', imageOf([shellLayer()]));
    const database = await registry.push('postgres', '1', await postgresImage());
    const make = async (name: string, fields: [string, string][] = []): Promise<string> => {
      const form: [string, string][] = [['name', name], ['command', 'true'], ...fields];
      return (await call<{ id_str: string }>(service, `${path}/suites`, form)).id_str;
    };
    const without = await make('without');
    // By their digests: the calls at the registry are no part of this.
    const beside = await make('beside', [
      of('name', 'idle'),
      of('image', `${registry.host}/idle@${idle}`),
      of('command', 'exec sleep 1000'),
    ]);
    const filled = await make('filled', [
      of('name', 'db'),
      of('image', `${registry.host}/postgres@${database}`),
      of('ready_command', 'pg_isready -h 127.0.0.1'),
      of('prepare', 'true'),
      ['services[0][data][]', '/srv/data'],
    ]);
    const bare = await startPostgres();
    stack.defer(() => bare.close());
    const times: Record<'without' | 'beside' | 'filled' | 'bare', number[]> = {
      without: [],
      beside: [],
      filled: [],
      bare: [],
    };
    for (let turn = 0; turn <= turns; turn += 1) {
      await bare.stop('SIGINT');
      const taken = {
        without: await timed(() => building.build(without)),
        beside: await timed(() => building.build(beside)),
        bare: await timed(() => bare.start()),
        filled: await timed(() => building.build(filled)),
      };
      if (turn === 0) continue; // brings the images, and fills the service
      for (const what of ['without', 'beside', 'filled', 'bare'] as const) times[what].push(taken[what]);
    }
    const [alone, served, again, started] = [times.without, times.beside, times.filled, times.bare].map(median) as [
      number,
      number,
      number,
      number,
    ];
    return [
      {
        what: 'a service that is ready at once, in ms over a build without one',
        value: served - alone,
        limit: { atMost: 30 },
        from: `${round(served)} ms against ${round(alone)} ms, in turns`,
      },
      {
        what: 'what a PostgreSQL that was filled before adds to a build, over a bare start',
        value: (again - alone) / started,
        limit: { atMost: 1.5 },
        from: `${round(again - alone)} ms against ${round(started)} ms, in turns`,
      },
    ];
  },
};
