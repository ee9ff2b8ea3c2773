import { artifacts } from './outputs-artifacts.ts';
import { caches } from './outputs-caches.ts';
import { buildsInImage, startInImage } from './outputs-images.ts';
import type { Benchmark } from './support/report.ts';

/** What builds stand on and leave behind. */
export const outputs: Benchmark = {
  name: 'outputs',
  async run(databases) {
    const figures = [await startInImage(), ...(await caches())];
    for (const database of ['SQLite', 'PostgreSQL'] as const)
      figures.push(...(await buildsInImage(databases, database)), ...(await artifacts(databases, database)));
    return figures;
  },
};
