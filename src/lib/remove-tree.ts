import { lstat } from 'node:fs/promises';
import { run, type Finished } from './processes.ts';

/**
 * Removes whatever is at a path, with everything below it. What lies there may have been made by a stranger who wants
 * it to stay: so it is `rm` that does it, which goes from directory to directory by its handle. Paths that are longer
 * than the system takes, thousands of levels, millions of entries and odd names do not stop it, and links are removed,
 * not followed. Where an ordinary user is stopped by the modes of directories, these are opened first.
 *
 * That nothing is there is what was wanted. Otherwise it rejects with what `rm` said.
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

/** The same where what stays must not stop anything else: somebody is told, and the next sweep tries again. */
export async function sweepTree(path: string, log: (message: string) => void): Promise<void> {
  try {
    await removeTree(path);
  } catch (error) {
    log(`${path} was not removed, which is tried again at the next start: ${String(error)}`);
  }
}

async function remove(path: string): Promise<Finished> {
  return tool('rm', ['-rf', '--one-file-system', '--', path]);
}

/** What is said about names is plain text in this locale, whatever bytes they have. */
async function tool(program: string, args: readonly string[]): Promise<Finished> {
  return run(program, args, { env: { PATH: process.env.PATH, LC_ALL: 'C' }, maxOutput: 2000 });
}

function refusal(path: string, { status, signal, stderr }: Finished): Error {
  return new Error(stderr.toString().trim() || `rm ended by ${signal ?? status} and left ${path}`);
}
