import { artifacts } from './outputs-artifacts.ts';
import { caches } from './outputs-caches.ts';
import { images } from './outputs-images.ts';
import type { Benchmark } from './support/report.ts';

/** What builds stand on and leave behind. */
export const outputs: Benchmark = {
  name: 'outputs',
  async run() {
    return [...(await images()), ...(await caches()), ...(await artifacts())];
  },
};
