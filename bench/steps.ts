import { startBuilding } from './support/building.ts';
import { onBoth } from './support/databases.ts';
import { median, round, type Benchmark } from './support/report.ts';
import { call } from './support/servers.ts';
import { timed } from './support/timed.ts';

const steps = 50;
const turns = 25;

/** The cost of each step of a build, against one shell that runs the same commands in sequence. */
export const stepCosts: Benchmark = {
  name: 'steps',
  async run(databases) {
    await using stack = new AsyncDisposableStack();
    const building = await onBoth(databases, async (settings) => {
      const started = await startBuilding('true', settings);
      stack.defer(() => started.stop());
      const make = async (name: string, fields: [string, string][]): Promise<() => Promise<number>> => {
        const form: [string, string][] = [['name', name], ...fields];
        const { id_str: id } = await call<{ id_str: string }>(started.service, `${started.path}/suites`, form);
        return () => timed(() => started.build(id));
      };
      const places = Array.from({ length: steps }, (_, at) => at);
      const named = places.flatMap((at): [string, string][] => [
        [`steps[${at}][name]`, `step ${at}`],
        [`steps[${at}][command]`, 'true'],
      ]);
      return {
        shell: await make('shell', [['command', places.map(() => 'true').join(' && ')]]),
        steps: await make('steps', named),
      };
    });
    const taken = { sqlite: { shell: [], steps: [] }, postgres: { shell: [], steps: [] } } as Record<
      keyof typeof building,
      Record<'shell' | 'steps', number[]>
    >;
    const kinds = ['sqlite', 'postgres'] as const;
    for (let turn = 0; turn <= turns; turn += 1)
      for (const kind of kinds)
        for (const how of ['shell', 'steps'] as const) {
          const time = await building[kind][how]();
          if (turn > 0) taken[kind][how].push(time); // the first turn warms up
        }
    return kinds.map((kind) => {
      const [inShell, inSteps] = [median(taken[kind].shell), median(taken[kind].steps)];
      return {
        what: `a step, in ms over a command of the same shell, on ${kind}`,
        value: (inSteps - inShell) / (steps - 1),
        limit: { atMost: 2 },
        from: `${round(inSteps)} ms for a build of ${steps} steps against ${round(inShell)} ms`,
      };
    });
  },
};
