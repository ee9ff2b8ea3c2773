import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { seccompFilter } from '../../src/runner/sandbox/arguments.ts';
import { removeGroups } from '../../src/runner/sandbox/cgroup-files.ts';
import { findCgroups } from '../../src/runner/sandbox/cgroups.ts';

/** What isolation costs on this machine at the least; namespaces.c tells of it. */
export interface LeastIsolation extends AsyncDisposable {
  /** How many shells are started in a second, by two loops side by side. */
  perSecond(starts: number): Promise<number>;
}

export async function openLeastIsolation(): Promise<LeastIsolation> {
  const folder = mkdtempSync(join(tmpdir(), 'headrace-bench-'));
  const program = join(folder, 'namespaces');
  execFileSync('cc', ['-O2', '-o', program, join(import.meta.dirname, 'namespaces.c')]);
  const tree = await findCgroups();
  if (!tree) throw new Error('control groups cannot be written by this user');
  const groups = tree.paths(`headrace-bench-${process.pid}`);
  await tree.open(`headrace-bench-${process.pid}`);
  let turns = 0;
  const loop = async (starts: number): Promise<void> => {
    const own = join(folder, `turn-${turns++}`);
    mkdirSync(own);
    // As the runner does for its sandboxes; see sandbox/state.ts. Only ext4 knows it.
    await once(spawn('chattr', ['+T', '--', own], { stdio: 'ignore' }), 'exit');
    const child = spawn(program, [`${starts}`, own, seccompFilter(), ...groups], {
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    const [status] = (await once(child, 'exit')) as [number | null];
    if (status !== 0) throw new Error(`a bare start in namespaces ended with ${status}`);
  };
  return {
    async perSecond(starts) {
      const startedAt = performance.now();
      await Promise.all([loop(starts / 2), loop(starts / 2)]);
      return starts / ((performance.now() - startedAt) / 1000);
    },
    async [Symbol.asyncDispose]() {
      for (const group of groups) await removeGroups(group);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
