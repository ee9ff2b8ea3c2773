import { median, round, type Benchmark } from './support/report.ts';
import { startBuilding } from './support/building.ts';
import { compileFiles } from './support/compiling.ts';

const many = 5;
const files = 5000;
const rounds = 30;

/** The cost of a suite's attached dependencies at its start, once the runner has them. */
export const software: Benchmark = {
  name: 'software',
  async run() {
    const building = await startBuilding('echo hello');
    try {
      await building.build(); // fetches the commit and makes its work tree
      const without: number[] = [];
      const withAll: number[] = [];
      const ids: string[] = [];
      for (let made = 0; made < many; made += 1)
        ids.push(await compileFiles(building.service, `software ${made}`, files));
      const measure = async (into: number[]): Promise<void> => {
        await building.build(); // the runner unpacks missing dependencies, and prepares the next sandbox
        for (let turn = 0; turn < rounds / 3; turn += 1) into.push(await building.firstByte());
      };
      for (let round = 0; round < 3; round += 1) {
        await measure(without);
        for (const id of ids) await building.attach(id);
        await measure(withAll);
        for (const id of ids) await building.detach(id);
      }
      return [
        {
          what: `start of a suite with ${many} dependencies of ${files} files each, over one with none`,
          value: median(withAll) / median(without),
          limit: { atMost: 1.3 },
          from: `${round(median(withAll))} ms against ${round(median(without))} ms`,
        },
      ];
    } finally {
      await building.stop();
    }
  },
};
