import { createHash } from 'node:crypto';
import { appendFile, mkdir, open, readFile, realpath, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { run } from '../../shared/lib/processes.ts';
import { sweepTree } from '../../shared/lib/remove-tree.ts';
import { ignore, removeGroups } from './cgroup-files.ts';
import type { SandboxOptions } from './types.ts';

/**
 * A killed runner leaves only files: this folder, and control groups, whose paths are noted before they are made. The
 * next process that opens the folder sweeps both. `owner` also has the process's start time, because process IDs are
 * reused.
 */
export interface State {
  readonly folder: string;
  /** Distinguishes the control groups of two folders. */
  readonly name: string;
  noteGroups(paths: readonly string[]): Promise<void>;
  close(): Promise<void>;
}

export async function openState(stateDir: string, log: SandboxOptions['log']): Promise<State> {
  await mkdir(stateDir, { recursive: true, mode: 0o755 });
  const folder = await realpath(stateDir);
  const owner = join(folder, 'owner');
  await claim(owner);
  const groups = join(folder, 'groups');
  await sweep(folder, groups, log);
  const runs = join(folder, 'runs');
  await mkdir(runs, { recursive: true, mode: 0o711 });
  // Before ext4 creates a file, it checks every file recently removed nearby. With this flag each run gets another part
  // of the disk. Other file systems refuse the flag, and do not need it.
  await run('chattr', ['+T', '--', runs]).catch(() => {});
  return {
    folder,
    name: createHash('sha256').update(folder).digest('hex').slice(0, 10),
    noteGroups: (paths) => appendFile(groups, paths.map((path) => `${path}\n`).join('')),
    close: async () => {
      await sweep(folder, groups, log);
      await rm(owner, { force: true });
    },
  };
}

async function claim(owner: string): Promise<void> {
  const me = `${process.pid} ${await startOf(process.pid)}`;
  try {
    await writeFile(owner, me, { flag: 'wx' });
    return;
  } catch (error) {
    ignore('EEXIST')(error);
  }
  const [pid = '', start = ''] = (await readFile(owner, 'utf8')).split(' ');
  if (start !== '' && (await startOf(Number(pid))) === start)
    throw new Error(`another runner (process ${pid}) uses the folder of ${owner}`);
  const file = await open(owner, 'w');
  await file.writeFile(me);
  await file.close();
}

async function startOf(pid: number): Promise<string | null> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' '); // the program's name may itself contain blanks
  const [STATE, START_TIME] = [0, 19];
  // A zombie: in containers its parent may never reap it.
  if (fields[STATE] === 'Z' || fields[STATE] === 'X') return null;
  return fields[START_TIME] ?? null;
}

async function sweep(folder: string, groups: string, log: SandboxOptions['log']): Promise<void> {
  const noted = (await readFile(groups, 'utf8').catch(ignore('ENOENT'))) ?? '';
  let isSwept = true;
  for (const group of new Set(noted.split('\n').filter(Boolean))) {
    await removeGroups(group).catch((error: unknown) => {
      isSwept = false;
      log(`cleanup of the control group ${group} failed: ${String(error)}`);
    });
  }
  if (isSwept) await rm(groups, { force: true });
  for (const name of ['runs', 'etc', 'over-images']) await sweepTree(join(folder, name), log);
}
