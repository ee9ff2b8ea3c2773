import { claimFigures } from './claims.ts';
import { idleRunnerFigures } from './idle-runners.ts';
import { largeStoreFigures } from './large-store.ts';
import type { Benchmark } from './support/report.ts';
import { twoServersFigures } from './two-servers.ts';

/** Figures that must stay the same with much more data, runners or servers. */
export const scale: Benchmark = {
  name: 'scale',
  run: async (databases) => [
    ...(await twoServersFigures(databases)),
    ...(await claimFigures(databases)),
    ...(await idleRunnerFigures(databases)),
    ...(await largeStoreFigures(databases)),
  ],
};
