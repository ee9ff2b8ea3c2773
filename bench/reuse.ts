import { setTimeout as pause } from 'node:timers/promises';
import { onBoth } from './support/databases.ts';
import { median, round, type Benchmark } from './support/report.ts';
import { startBuilding, type Building } from './support/building.ts';
import { follow } from './support/follow.ts';
import { call } from './support/servers.ts';
import { timed } from './support/timed.ts';

const turns = 40;
/** After a build its runner cleans up and opens the next sandbox, which is no part of the next measurement. */
const afterBuildMs = 100;
const kinds = { sqlite: 'SQLite', postgres: 'PostgreSQL' } as const;

interface Item {
  id_str: string;
  reused_from_id: number | null;
}

/** Time from the request for a build of a known commit to its end, reused and run. */
export const reuse: Benchmark = {
  name: 'reuse',
  async run(databases) {
    await using stack = new AsyncDisposableStack();
    const building = await onBoth(databases, async (settings) => {
      const started = await startBuilding('true', settings);
      stack.defer(() => started.stop());
      await started.change({ reuse: 'on' });
      await started.build();
      return started;
    });
    const figures = { sqlite: times(), postgres: times() };
    for (let turn = 0; turn < turns; turn += 1) {
      for (const kind of ['sqlite', 'postgres'] as const) {
        for (const way of ['reused', 'run'] as const) {
          await pause(afterBuildMs);
          figures[kind][way].push(await untilEnd(building[kind], way === 'reused'));
        }
      }
    }
    return (['sqlite', 'postgres'] as const).map((kind) => ({
      what: `request to the end of a reused build on ${kinds[kind]}, ms`,
      value: median(figures[kind].reused),
      limit: { atMost: 50 },
      from: `${round(median(figures[kind].run))} ms for the same build if it runs`,
    }));
  },
};

const times = (): Record<'reused' | 'run', number[]> => ({ reused: [], run: [] });

async function untilEnd({ service, path, sha }: Building, isReused: boolean): Promise<number> {
  let request = '';
  const taken = await timed(async () => {
    const form = { commit_ref: sha, reuse: String(isReused) };
    request = `${path}/build_requests/${(await call<Item>(service, `${path}/build_requests`, form)).id_str}`;
    await follow(service, request);
  });
  const [build] = await call<Item[]>(service, `${request}/builds`);
  if ((build?.reused_from_id !== null) !== isReused) throw new Error(`${request} was not as wanted`);
  return taken;
}
