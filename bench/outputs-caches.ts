import { join } from 'node:path';
import { Blobs, CachingRunner } from '../test/support/caching.ts';
import { median, round, type Figure } from './support/report.ts';
import { openBenchSandboxes } from './support/sandboxes.ts';
import { timed } from './support/timed.ts';

const files = 20_000;
const turns = 30;
/** Both builds run the same programs. */
const glance = (folder: string): string => `test "$(ls ${folder} | wc -l)" -ge 1`;

/** The cost of a large cache at the start of a build, against the same build of a suite without a cache. */
export async function caches(): Promise<Figure[]> {
  await using bench = await openBenchSandboxes(2);
  const runner = await CachingRunner.open(join(bench.folder, 'runner'), bench.sandboxes, new Blobs());
  const fill = `mkdir deps; for d in $(seq ${files / 100}); do mkdir deps/$d; (cd deps/$d; touch $(seq 100)); done`;
  const { cache } = await runner.build(fill, undefined);
  if (!cache) throw new Error('the cache was not saved');
  const [without, restored]: [number[], number[]] = [[], []];
  for (let turn = 0; turn < turns; turn += 1) {
    without.push(await timed(() => runner.build(glance('/usr'), undefined, { paths: [] })));
    restored.push(
      await timed(async () => {
        const { said } = await runner.build(glance('deps/7'), cache);
        if (!said.endsWith('The cache is unchanged.\n')) throw new Error(`the cache was not there: ${said}`);
      }),
    );
  }
  return [
    {
      what: `a cache of ${files} files restored, in ms beyond a build without one`,
      value: median(restored) - median(without),
      limit: { atMost: 10 },
      from: `${round(median(restored))} ms against ${round(median(without))} ms, medians of ${turns} in turns`,
    },
  ];
}
