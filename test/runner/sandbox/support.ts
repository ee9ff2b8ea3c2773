import assert from 'node:assert/strict';
import { createHash, randomUUID } from 'node:crypto';
import { readdirSync, readFileSync, realpathSync } from 'node:fs';
import { mkdtemp, mkdir, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import type { TestContext } from 'node:test';
import { removeTree } from '../../../src/shared/lib/remove-tree.ts';
import { openSandboxes } from '../../../src/runner/sandbox/index.ts';
import type { Ended, Job, SandboxOptions, Sandboxes } from '../../../src/runner/sandbox/types.ts';
import { longestWait } from '../../support/pauses.ts';

export const isRoot = process.getuid?.() === 0;

export interface Ran extends Ended {
  text: string;
}

export interface Bench {
  folder: string;
  stateDir: string;
  sandboxes: Sandboxes;
  logged: string[];
  /** Runs one command (or several steps) and collects what it writes. */
  sh: (command: string | Job['steps'], changes?: Partial<Job>) => Promise<Ran>;
}

export const megabyte = 1024 * 1024;
/** Few tests are about the time that a run may take: those have a limit of their own. */
export const usualLimits = { memoryBytes: 512 * megabyte, processes: 256, timeoutMs: longestWait };

/** Opens sandboxes for one test; when it ends they are closed, and nothing of them may be left on the machine. */
export async function open(
  t: TestContext,
  options: Partial<SandboxOptions> = {},
  afterwards?: () => Promise<void>,
): Promise<Bench> {
  const folder = realpathSync(await mkdtemp(join(tmpdir(), 'headrace-sandbox-')));
  const stateDir = options.stateDir ?? join(folder, 'state');
  const mark = randomUUID();
  const logged: string[] = [];
  const sandboxes = await openSandboxes({
    network: 'none',
    isolation: 'required',
    log: (line) => void logged.push(line),
    ...options,
    stateDir,
  });
  t.after(async () => {
    try {
      await sandboxes.close();
      nothingLeft(stateDir, mark);
    } finally {
      await removeTree(folder); // the kernel closes the work folder of an overlay, also to its owner
      await afterwards?.();
    }
  });
  const sh: Bench['sh'] = async (command, changes = {}) => {
    const runMark = `${mark}-${randomUUID()}`;
    const chunks: Buffer[] = [];
    const ended = await sandboxes.run({
      id: randomUUID(),
      // What an attack tries goes on after a line that failed.
      steps: typeof command === 'string' ? [{ name: 'suite', command: `set +e; ${command}` }] : command,
      workspace: { empty: true },
      limits: usualLimits,
      output: (chunk) => void chunks.push(chunk),
      signal: new AbortController().signal,
      ...changes,
      environment: { TEST_MARK: runMark, ...changes.environment },
    });
    assert.deepEqual(marked(runMark), [], 'processes are left after a run');
    const { used, ...shown } = ended;
    const ran = { ...shown, text: Buffer.concat(chunks).toString() };
    // Hidden from comparisons, because no two runs use the same.
    return Object.defineProperty(ran, 'used', { value: used, enumerable: false });
  };
  return { folder, stateDir, sandboxes, logged, sh };
}

/** Processes on this machine whose environment holds the mark. */
export function marked(mark: string): string[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/environ`, 'latin1').includes(mark);
      } catch {
        return false;
      }
    });
}

export function groupsOf(stateDir: string): string[] {
  const name = `headrace-${createHash('sha256').update(stateDir).digest('hex').slice(0, 10)}`;
  const mounts = readFileSync('/proc/self/mountinfo', 'utf8').split('\n');
  const tops = mounts.filter((line) => / - cgroup2? /.test(line)).map((line) => line.split(' ')[4] ?? '');
  return tops.flatMap(groupsBelow).filter((path) => basename(path).startsWith(name));
}

/** Groups of other tests come and go meanwhile. */
function groupsBelow(folder: string): string[] {
  const entries = attempt(() => readdirSync(folder, { withFileTypes: true }));
  const below = (entries ?? []).filter((entry) => entry.isDirectory()).map((entry) => join(folder, entry.name));
  return below.flatMap((path) => [path, ...groupsBelow(path)]);
}

function attempt<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch {
    return undefined;
  }
}

export function nothingLeft(stateDir: string, mark: string): void {
  assert.deepEqual(marked(mark), [], 'processes are left');
  assert.deepEqual(readdirSync(stateDir), [], 'files are left');
  assert.deepEqual(groupsOf(stateDir), [], 'control groups are left');
  assert.ok(!readFileSync('/proc/self/mountinfo', 'utf8').includes(`${stateDir}/`), 'mounts are left');
}

export async function tree(folder: string, files: Record<string, string>): Promise<string> {
  for (const [name, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), text);
  }
  return folder;
}
