import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { openSandboxes } from '../src/runner/sandbox/index.ts';
import type { FoundCache } from '../src/shared/protocol/index.ts';
import { workplace } from '../test/runner/git/workplace.ts';
import { Blobs, CachingRunner } from '../test/support/caching.ts';
import { cargo, make, ninja, typescript, type Incremental } from './support/incremental.ts';
import { median, round, type Benchmark, type Figure } from './support/report.ts';

const turns = 9;

/**
 * A build has the output of the build before, and one file has changed. Measures its command, over the same command in
 * the folder of a developer who has just built there. Each turn changes another file in both. Only the command is
 * timed, so no server takes part.
 */
export const incremental: Benchmark = {
  name: 'incremental',
  async run() {
    const figures: Figure[] = [];
    for (const project of [make, ninja, await cargo(), typescript]) {
      if (typeof project !== 'string') figures.push(await measure(project));
      else console.log(`not measured: ${project}`);
    }
    return figures;
  },
};

async function measure({ name, files, change, command, made, paths }: Incremental): Promise<Figure> {
  await using after = new AsyncDisposableStack();
  const place = await workplace({ after: (cleanUp) => after.defer(cleanUp) });
  const options = { network: 'none', isolation: 'required', log: () => {}, paths } as const;
  const sandboxes = await openSandboxes({ stateDir: join(place.folder, 'sandboxes'), ...options });
  after.defer(() => sandboxes.close());
  const runner = await CachingRunner.open(join(place.folder, 'caches'), sandboxes, new Blobs());
  runner.mirrors = place.mirrors;
  // Its output is captured, so that writing it costs the same in both.
  const timed = `began=$(date +%s%N); said=$( (${command}) 2>&1) || { echo "$said"; exit 1; }
    echo "took $((($(date +%s%N) - began) / 1000)) made $(echo "$said" | grep -ce '${made.source}')"`;

  let cache: FoundCache | undefined;
  let trees = 0;
  const inBuild = async (changed: Record<string, string>): Promise<Taken> => {
    const sha = await place.repository.commit({ files: changed });
    const checkout = join(place.folder, `tree-${(trees += 1)}`);
    await place.mirrors.checkout({ ...place.project, sha, into: checkout });
    const commit = { sha, checkout, source: place.project, timeoutMs: 3_600_000 };
    const built = await runner.build(timed, cache, { paths: ['out'], ...commit });
    cache = built.cache ?? cache;
    return taken(built.text);
  };
  const folder = join(place.folder, 'developer');
  const inFolder = (changed: Record<string, string>): Taken => {
    for (const [path, content] of Object.entries(changed)) {
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      writeFileSync(join(folder, path), content);
    }
    return taken(execFileSync('/bin/sh', ['-c', timed], { cwd: folder, encoding: 'utf8' }));
  };

  await inBuild(files);
  inFolder(files);
  const [here, there]: [number[], number[]] = [[], []];
  for (let turn = 1; turn <= turns; turn += 1) {
    const [build, warm] = [await inBuild(change(turn)), inFolder(change(turn))];
    if (build.made !== warm.made) throw new Error(`${name}: a build made ${build.made}, the developer ${warm.made}`);
    here.push(build.ms);
    there.push(warm.ms);
  }
  return {
    what: `${name}: a build with a cache where one file changed, over a developer's warm folder`,
    value: median(here) / median(there),
    limit: { atMost: 1.3 },
    from: `${round(median(here))} ms against ${round(median(there))} ms, medians of ${turns} in turns`,
  };
}

interface Taken {
  ms: number;
  /** The number of files that the tool made again. */
  made: string;
}

function taken(text: string): Taken {
  const [, us, made = ''] = /^took (\d+) made (\d+)$/m.exec(text) ?? [];
  if (us === undefined) throw new Error(text);
  return { ms: Number(us) / 1000, made };
}
