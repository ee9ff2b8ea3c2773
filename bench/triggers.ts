import { hookFigures } from './hooks.ts';
import type { Benchmark } from './support/report.ts';

/** What it costs that builds start by themselves. */
export const triggers: Benchmark = {
  name: 'triggers',
  run: (databases) => hookFigures(databases),
};
