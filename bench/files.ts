import { setTimeout as pause } from 'node:timers/promises';
import { onBoth, type DatabaseName } from './support/databases.ts';
import { follow, untilSaid } from './support/follow.ts';
import { startProject, type BenchProject } from './support/project.ts';
import { median, round, type Benchmark, type Figure } from './support/report.ts';
import { call } from './support/servers.ts';
import { writtenBytes } from './support/written.ts';

/** For a quick trial, use fewer: `BENCH_FILES=1000 BENCH_MEGABYTES=20 npm run bench -- files`. */
const files = Number(process.env.BENCH_FILES ?? 100_000);
const megabytes = Number(process.env.BENCH_MEGABYTES ?? 2048);
const perFolder = 100;
const turns = 25;
const atOnce = 64;
const left = `${files} files of ${megabytes} MB`;

/** Noise that is made once and written many times, after another number each time. */
const make = `perl -e '
  open R, "<", "/dev/urandom"; read R, $noise, ${Math.floor((megabytes * 2 ** 20) / files)};
  for $folder (1 .. ${Math.ceil(files / perFolder)}) {
    mkdir "d$folder";
    for (1 .. ${perFolder}) { open F, ">", "d$folder/$_"; print F "$folder $_ $noise" }
  }'`;
/** It sleeps so that later work is not counted. */
const say = 'echo hello; sleep 0.3';
/** All files except those that a build changes here. The digest is of names, sizes, modes and contents. */
const untouched = 'find . -type f ! -path ./d1/1 ! -name own';
const digest = `{ ${untouched} -printf "%P %s %m\\n" | sort; ${untouched} -print0 | sort -z | xargs -0 cat; } | md5sum`;

/** The cost for a suite that begins with the files of another suite. */
export const filesOfSuites: Benchmark = {
  name: 'files',
  async run(databases) {
    const { sqlite, postgres } = await onBoth(databases, starts);
    return [...sqlite, ...postgres, await sameForAll()];
  },
};

interface Item {
  id_str: string;
  suite_name: string;
}

interface Leaving extends BenchProject {
  /** Builds all suites to the end. Returns the addresses of their builds by suite. */
  buildAll(): Promise<Map<string, string[]>>;
  /** Starts another attempt of a build and returns its address. */
  restart(build: string): Promise<string>;
}

/** A project with a suite that leaves files, and a suite that begins with them. */
async function startLeaving(
  settings: NodeJS.ProcessEnv,
  first: string,
  then: Record<string, string>,
): Promise<Leaving> {
  const project = await startProject({}, settings);
  const { service, path, sha } = project;
  await project.command(first);
  const id = project.suite.split('/').at(-1) ?? '';
  await call(service, `${path}/suites`, { name: 'takes', 'needs[]': id, files_from_id: id, ...then });
  return {
    ...project,
    async buildAll() {
      const asked = await call<Item>(service, `${path}/build_requests`, { commit_ref: sha });
      const request = `${path}/build_requests/${asked.id_str}`;
      await follow(service, request);
      const builds = await call<Item[]>(service, `${request}/builds?limit=1000`);
      const bySuite = Map.groupBy(builds, ({ suite_name: suite }) => suite);
      return new Map(Array.from(bySuite, ([name, some]) => [name, some.map((one) => `${path}/builds/${one.id_str}`)]));
    },
    restart: async (build) => `${path}/builds/${(await call<Item>(service, `${build}/restart`, {})).id_str}`,
  };
}

/** Time from the request for another attempt to its first output, and bytes written to disk until then, in turns. */
async function starts(settings: NodeJS.ProcessEnv, name: DatabaseName): Promise<Figure[]> {
  const project = await startLeaving(settings, make, { command: say });
  try {
    await call(project.service, `${project.path}/suites`, { name: 'without', command: say });
    const builds = await project.buildAll();
    const measure = async (suite: string): Promise<{ ms: number; bytes: number }> => {
      await pause(200); // the runner cleans up and opens the next sandbox
      const before = writtenBytes(project.runnerPid());
      let bytes = 0;
      const ms = await untilSaid(
        project.service,
        'hello',
        () => project.restart(builds.get(suite)?.[0] ?? ''),
        () => (bytes = writtenBytes(project.runnerPid()) - before),
      );
      return { ms, bytes };
    };
    for (const suite of ['takes', 'without']) await measure(suite); // warms up
    const [takes, without]: [number[], number[]] = [[], []];
    const written: number[] = [];
    for (let turn = 0; turn < turns; turn += 1) {
      const { ms, bytes } = await measure('takes');
      takes.push(ms);
      written.push(bytes);
      without.push((await measure('without')).ms);
    }
    return [
      {
        what: `first output of a suite that begins with ${left}, over one with the checkout, on ${name}`,
        value: median(takes) / median(without),
        limit: { atMost: 1.3 },
        from: `${round(median(takes))} ms against ${round(median(without))} ms`,
      },
      {
        what: `MB that the runner writes to the disk before, on ${name}`,
        value: Math.max(...written) / 1e6,
        limit: { atMost: 1 },
        from: `the most of ${turns}`,
      },
    ];
  } finally {
    await project.stop();
  }
}

/** Builds begin with the same files at the same time and change them. Each must see the same files, and only those. */
async function sameForAll(): Promise<Figure> {
  const change = 'test ! -e own && echo "$N" >own && { echo; cat own; } >>d1/1';
  const project = await startLeaving({ HEADRACE_CONCURRENCY: String(atOnce) }, `${make}; ${digest}`, {
    command: `${change}; ${digest}; tail -n 1 d1/1 | cmp - own`,
    'matrix[]': `N=${Array.from({ length: atOnce }, (_, at) => at).join(',')}`,
  });
  const { service } = project;
  try {
    const builds = await project.buildAll();
    const all = [...(builds.get('bench') ?? []), ...(builds.get('takes') ?? [])];
    const after = await project.restart(all[1] ?? '');
    await follow(service, after);
    const seen = new Map<string, number>();
    for (const build of [...all, after]) {
      const { build_state: state } = await call<{ build_state: string }>(service, build);
      const answer = await fetch(`${service.url}${build}/log.txt`, {
        headers: { authorization: service.authorization },
      });
      const result = `${state}: ${(await answer.text()).trim().split('\n').at(-1)}`;
      seen.set(result, (seen.get(result) ?? 0) + 1);
    }
    return {
      what: `digests of ${left} in ${atOnce} builds at once that change them, before and afterwards`,
      value: seen.size,
      limit: { atMost: 1 },
      from: Array.from(seen, ([said, times]) => `${times} × ${said}`).join(', '),
    };
  } finally {
    await project.stop();
  }
}
