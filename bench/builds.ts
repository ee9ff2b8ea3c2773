import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { onBoth, postgresOver, type OnBoth } from './support/databases.ts';
import { median, round, type Benchmark } from './support/report.ts';
import { startBuilding } from './support/building.ts';

const rounds = 3;
const many = 100;
/**
 * After a build its runner cleans up and opens the next sandbox. Without a pause, that would take processor time from
 * the next measurement, and PostgreSQL always comes after SQLite.
 */
const afterBuildMs = 100;
const kinds = ['sqlite', 'postgres'] as const;
const measured = (): OnBoth<number[]> => ({ sqlite: [], postgres: [] });
const middle = ({ sqlite, postgres }: OnBoth<number[]>): OnBoth<number> => ({
  sqlite: median(sqlite),
  postgres: median(postgres),
});

/** Time from the request for a build of a known commit to its first byte of log, and builds per second. */
export const builds: Benchmark = {
  name: 'builds',
  async run(databases) {
    await using stack = new AsyncDisposableStack();
    const building = await onBoth(databases, async (settings) => {
      const started = await startBuilding('echo hello', settings);
      stack.defer(() => started.stop());
      await started.build(); // fetches the commit and makes its work tree
      return started;
    });
    const first = measured();
    const bareFirst: number[] = [];
    for (let turn = 0; turn < 60; turn += 1) {
      for (const kind of kinds) {
        await pause(afterBuildMs);
        first[kind].push(await building[kind].firstByte());
      }
      await pause(afterBuildMs);
      bareFirst.push(await bareStart());
    }

    const [one, five] = [measured(), measured()];
    const bare: number[] = [];
    for (const kind of kinds) await building[kind].command('true');
    for (let turn = 0; turn < rounds; turn += 1) {
      for (const kind of kinds) one[kind].push(await building[kind].perSecond(many));
      for (const kind of kinds) five[kind].push(await building[kind].perSecond(many, 5));
      bare.push(await barePerSecond(many));
    }
    const memory = building.sqlite.residentMegabytes();
    const ours = median(first.sqlite);
    return [
      {
        what: 'request to first log byte, over a bare bubblewrap start',
        value: ours / median(bareFirst),
        limit: { atMost: 2 },
        from: `${round(ours)} ms against ${round(median(bareFirst))} ms`,
      },
      postgresOver(middle(first), { what: 'request to first log byte', limit: { atMost: 2.2 }, unit: ' ms' }),
      {
        what: 'sandboxed no-op builds per second, share of bare bubblewrap starts',
        value: median(one.sqlite) / median(bare),
        limit: { atLeast: 0.4 },
        from: `${round(median(one.sqlite))}/s against ${round(median(bare))}/s, two executors each`,
      },
      {
        what: 'resident memory of server and runner after these builds, MB',
        value: memory,
        limit: { atMost: 200 },
        from: `${many * rounds * 2} builds`,
      },
      postgresOver(middle(one), { what: 'no-op builds of one project', limit: { atLeast: 0.4 }, unit: '/s' }),
      postgresOver(middle(five), { what: 'no-op builds of five projects', limit: { atLeast: 0.4 }, unit: '/s' }),
    ];
  },
};

/** The same isolation and mounts, with only bubblewrap. */
const bareArguments =
  '--unshare-all --die-with-parent --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64 --proc /proc --dev /dev';
const bareCommand = [
  ...bareArguments.split(' '),
  '--tmpfs',
  '/tmp',
  '--tmpfs',
  '/build',
  '--chdir',
  '/build',
  '/bin/sh',
  '-c',
];

async function bareStart(): Promise<number> {
  const startedAt = performance.now();
  const child = spawn('bwrap', [...bareCommand, 'echo hello'], {
    uid: 65534,
    gid: 65534,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'exit'); // it may have ended by the time its output is read
  await once(child.stdout, 'data');
  const taken = performance.now() - startedAt;
  await ended;
  return taken;
}

async function bareRun(): Promise<void> {
  await once(spawn('bwrap', [...bareCommand, 'true'], { uid: 65534, gid: 65534, stdio: 'ignore' }), 'exit');
}

async function barePerSecond(starts: number): Promise<number> {
  const startedAt = performance.now();
  const loop = async (): Promise<void> => {
    for (let turn = 0; turn < starts / 2; turn += 1) await bareRun();
  };
  await Promise.all([loop(), loop()]);
  return starts / ((performance.now() - startedAt) / 1000);
}
