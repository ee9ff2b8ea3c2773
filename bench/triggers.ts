import { hookFigures } from './hooks.ts';
import { pollingFigures } from './polling.ts';
import type { Benchmark } from './support/report.ts';

/** The cost of builds that start automatically. */
export const triggers: Benchmark = {
  name: 'triggers',
  run: async (databases) => [...(await hookFigures(databases)), ...(await pollingFigures(databases))],
};
