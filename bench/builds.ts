import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { median, round, type Benchmark } from './support/report.ts';
import { startBuilding } from './support/building.ts';

/** How much is between asking for a build of a known commit and its first byte of log, and how many fit into a second. */
export const builds: Benchmark = {
  name: 'builds',
  async run() {
    const building = await startBuilding('echo hello');
    try {
      await building.build(); // the commit is known and its work tree made
      const first: number[] = [];
      const bare: number[] = [];
      for (let turn = 0; turn < 60; turn += 1) {
        first.push(await building.firstByte());
        bare.push(await bareStart());
      }
      const many = 300;
      await building.command('true');
      const ours = await building.perSecond(many);
      const limit = await barePerSecond(many);
      return [
        {
          what: 'request to first log byte, over a bare bubblewrap start',
          value: median(first) / median(bare),
          limit: { atMost: 2.5 },
          from: `${round(median(first))} ms against ${round(median(bare))} ms`,
        },
        {
          what: 'sandboxed no-op builds per second, share of bare bubblewrap starts',
          value: ours / limit,
          limit: { atLeast: 0.35 },
          from: `${round(ours)}/s against ${round(limit)}/s, two executors each`,
        },
      ];
    } finally {
      await building.stop();
    }
  },
};

/** The same isolation and mounts, without anything around it. */
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

async function barePerSecond(many: number): Promise<number> {
  const startedAt = performance.now();
  const loop = async (): Promise<void> => {
    for (let turn = 0; turn < many / 2; turn += 1) await bareRun();
  };
  await Promise.all([loop(), loop()]);
  return many / ((performance.now() - startedAt) / 1000);
}
