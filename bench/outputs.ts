import { artifacts } from './outputs-artifacts.ts';
import { caches } from './outputs-caches.ts';
import { buildsInImage, startInImage } from './outputs-images.ts';
import { reports } from './outputs-reports.ts';
import type { Benchmark } from './support/report.ts';

/** The images and caches with which builds start, and the files and reports that they leave. */
export const outputs: Benchmark = {
  name: 'outputs',
  async run(databases) {
    const figures = [...(await startInImage()), ...(await caches())];
    for (const database of ['SQLite', 'PostgreSQL'] as const)
      for (const measure of [buildsInImage, artifacts, reports]) figures.push(...(await measure(databases, database)));
    return figures;
  },
};
