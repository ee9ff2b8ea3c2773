import { join } from 'node:path';
import { run } from '../src/shared/lib/processes.ts';
import { postgresImage } from '../test/support/postgres-image.ts';
import { postgresPrograms, startPostgres } from '../test/support/postgres.ts';
import { imageOf, shellLayer, startRegistry } from '../test/support/registry.ts';
import { startBuilding } from './support/building.ts';
import { untilSaid } from './support/follow.ts';
import { median, round, type Benchmark } from './support/report.ts';
import { call } from './support/servers.ts';
import { timed } from './support/timed.ts';
import { writtenBytes } from './support/written.ts';

const of = (field: string, value: string): [string, string] => [`services[0][${field}]`, value];

const turns = 25;
/** For a quick trial, use less: `BENCH_MEGABYTES=20 npm run bench -- services`. */
const megabytes = Number(process.env.BENCH_MEGABYTES ?? 200);
const tables = 500;
const psql = join(postgresPrograms(), 'psql');
const fill = `do 'begin for n in 1 .. ${tables} loop execute format(''create table t%s as select n as id, repeat(md5(n::text), 32) as text from generate_series(1, ${Math.ceil((megabytes * 1000) / tables)}) n'', n); end loop; end'`;

/** The cost of a service for its build, and of a service filled before over a bare start of the same program. */
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
      const form: [string, string][] = [['name', name], ['command', 'echo hello'], ...fields];
      return (await call<{ id_str: string }>(service, `${path}/suites`, form)).id_str;
    };
    const without = await make('without');
    // By their digests, so that no calls to the registry are measured.
    const beside = await make('beside', [
      of('name', 'idle'),
      of('image', `${registry.host}/idle@${idle}`),
      of('command', 'exec sleep 1000'),
    ]);
    const filled = await make('filled', [
      of('name', 'db'),
      of('image', `${registry.host}/postgres@${database}`),
      of('ready_command', 'pg_isready -h 127.0.0.1'),
      of('prepare', `${psql} -X -q -h db -U postgres -c "${fill}" -c 'vacuum analyze'`),
      ['services[0][prepare_inputs][]', 'README'],
      ['services[0][data][]', '/srv/data'],
    ]);
    const bare = await startPostgres();
    stack.defer(() => bare.close());
    const filling = await run(psql, ['-X', '-q', '-c', fill, '-c', 'vacuum analyze', bare.url]);
    if (filling.status !== 0) throw new Error(filling.stderr.toString());
    /** Bytes written to disk before the first output of the suite with the filled service. */
    const written = async (): Promise<number> => {
      const before = writtenBytes(building.runnerPid());
      let bytes = 0;
      const ask = async (): Promise<string> => {
        const asked: [string, string][] = [
          ['commit_ref', building.sha],
          ['suites[]', filled],
        ];
        return `${path}/build_requests/${(await call<{ id_str: string }>(service, `${path}/build_requests`, asked)).id_str}`;
      };
      await untilSaid(service, 'hello', ask, () => (bytes = writtenBytes(building.runnerPid()) - before));
      return bytes;
    };
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
      if (turn === 0) continue; // the first turn pulls the images and fills the service
      for (const what of ['without', 'beside', 'filled', 'bare'] as const) times[what].push(taken[what]);
    }
    const [alone, served, again, started] = [times.without, times.beside, times.filled, times.bare].map(median) as [
      number,
      number,
      number,
      number,
    ];
    const bytes: number[] = [];
    for (let turn = 0; turn < 5; turn += 1) bytes.push(await written());
    const held = `${tables} tables of ${megabytes} MB`;
    return [
      {
        what: 'a service that is ready at once, in ms over a build without one',
        value: served - alone,
        limit: { atMost: 30 },
        from: `${round(served)} ms against ${round(alone)} ms, in turns`,
      },
      {
        what: `what a PostgreSQL that was filled with ${held} before adds to a build, over a bare start on the same`,
        value: (again - alone) / started,
        limit: { atMost: 1.5 },
        from: `${round(again - alone)} ms against ${round(started)} ms, in turns`,
      },
      {
        what: 'MB that are written to the disk until the first step of the same begins',
        value: Math.max(...bytes) / 1e6,
        limit: { atMost: 5 },
        from: `the most of ${bytes.length}`,
      },
    ];
  },
};
