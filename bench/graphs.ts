import { onBoth } from './support/databases.ts';
import { startBuilding, type Building } from './support/building.ts';
import { median, round, type Benchmark } from './support/report.ts';
import { call } from './support/servers.ts';

const suites = 50;
const wide = 5;
const rounds = 5;

/** What it costs that suites wait for each other: no-op suites in a graph, against as many that begin together. */
export const graphs: Benchmark = {
  name: 'graphs',
  async run(databases) {
    await using stack = new AsyncDisposableStack();
    const measured = await onBoth(databases, async (settings) => {
      const building = await startBuilding('true', settings);
      stack.defer(() => building.stop());
      const { service, path } = building;
      const ids: string[] = [];
      for (let at = 1; at < suites; at += 1) {
        const made = await call<{ id_str: string }>(service, `${path}/suites`, {
          name: `suite ${at}`,
          command: 'true',
        });
        ids.push(made.id_str);
      }
      const together = await typical(building);
      for (const [at, id] of ids.slice(wide).entries())
        await call(service, `${path}/suites/${id}`, { 'needs[]': ids[at] ?? '' }, 'PUT');
      return { together, graph: await typical(building) };
    });
    return (['sqlite', 'postgres'] as const).map((kind) => {
      const { together, graph } = measured[kind];
      return {
        what: `a graph of ${suites} no-op suites, over as many without needs, on ${kind}`,
        value: graph / together,
        limit: { atMost: 1.5 },
        from: `${round(graph)} ms against ${round(together)} ms`,
      };
    });
  },
};

async function typical(building: Building): Promise<number> {
  const times: number[] = [];
  for (let turn = 0; turn < rounds; turn += 1) {
    const beganAt = performance.now();
    await building.build();
    times.push(performance.now() - beganAt);
  }
  return median(times);
}
