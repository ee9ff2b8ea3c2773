import { lstat } from 'node:fs/promises';
import { run, type Finished } from './processes.ts';

/**
 * Removes a file or a directory with its content. A hostile build may have made it. So `rm` does it, which descends by
 * handle and never follows links. Overlong paths, deep levels, millions of entries and odd names do not stop it. If
 * modes stop an ordinary user, they are changed first.
 *
 * A missing path is not an error. Any other failure rejects with the output of `rm`.
 */
export async function removeTree(path: string): Promise<void> {
  const first = await remove(path);
  if (first.status === 0) return;
  // `chmod` would follow a link that it is given by name.
  if (!(await lstat(path)).isDirectory()) throw refusal(path, first);
  await tool('chmod', ['-R', 'u+rwX', '--', path]);
  const second = await remove(path);
  if (second.status !== 0) throw refusal(path, second);
}

/** For failures that must not stop other work: they are logged, and the next sweep tries again. */
export async function sweepTree(path: string, log: (message: string) => void): Promise<void> {
  try {
    await removeTree(path);
  } catch (error) {
    log(`cleanup failed, ${path} stays until the next start tries again: ${String(error)}`);
  }
}

async function remove(path: string): Promise<Finished> {
  return tool('rm', ['-rf', '--one-file-system', '--', path]);
}

/** In this locale messages quote names as plain text, whatever bytes they have. */
async function tool(program: string, args: readonly string[]): Promise<Finished> {
  return run(program, args, { env: { PATH: process.env.PATH, LC_ALL: 'C' }, maxOutput: 2000 });
}

function refusal(path: string, { status, signal, stderr }: Finished): Error {
  return new Error(stderr.toString().trim() || `rm ended by ${signal ?? status} and left ${path}`);
}
