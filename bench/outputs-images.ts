import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { copyFile, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openSandboxes, type Job, type Sandboxes } from '../src/runner/sandbox/index.ts';
import { median, round, type Figure } from './support/report.ts';

const turns = 100;

/** From the order of a run to its end, in an image that the runner has and without one, in turns. */
export async function startInImage(): Promise<Figure> {
  const folder = mkdtempSync(join(tmpdir(), 'headrace-bench-'));
  const sandboxes = await openSandboxes({
    stateDir: join(folder, 'sandboxes'),
    network: 'none',
    isolation: 'required',
    log: () => {},
    prepare: 1,
  });
  try {
    const tree = join(folder, 'image');
    for (const place of ['bin', 'etc', 'usr/bin', 'usr/lib', 'opt', 'root', 'srv', 'sbin', 'lib'])
      mkdirSync(join(tree, place), { recursive: true });
    await copyFile('/bin/busybox', join(tree, 'bin/busybox'));
    await symlink('busybox', join(tree, 'bin/sh'));
    await sandboxes.adopt(tree);
    const without: number[] = [];
    const within: number[] = [];
    for (let turn = 0; turn < turns; turn += 1) {
      without.push(await timeOf(sandboxes, undefined));
      within.push(await timeOf(sandboxes, tree));
    }
    return {
      what: 'start in an image that the runner has, over one without',
      value: median(within) / median(without),
      limit: { atMost: 1.15 },
      from: `${round(median(within))} ms against ${round(median(without))} ms, in turns`,
    };
  } finally {
    await sandboxes.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function timeOf(sandboxes: Sandboxes, image: string | undefined): Promise<number> {
  // The next sandbox is opened behind the last run; a runner has that time between two builds.
  await new Promise((resolve) => setTimeout(resolve, 50));
  const job: Job = {
    id: `bench-${Math.random().toString(36).slice(2)}`,
    steps: [{ name: 'command', command: ':' }],
    environment: {},
    workspace: { empty: true },
    image,
    limits: { memoryBytes: 256 * 1024 * 1024, processes: 64, timeoutMs: 60_000 },
    output: () => {},
    signal: new AbortController().signal,
  };
  const startedAt = performance.now();
  const { exitStatus } = await sandboxes.run(job);
  if (exitStatus !== 0) throw new Error('the run did not succeed');
  return performance.now() - startedAt;
}
