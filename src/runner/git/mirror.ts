import { access, mkdir, readdir, rename, rm, unlink, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { lockFile, tryLockFile, type FileLock } from '../../lib/file-lock.ts';
import { SilenceError } from '../../lib/process-groups.ts';
import { FetchError, recognize, type RemoteFailure } from './failures.ts';
import { expectSuccess, git, GitError, longGit } from './git.ts';
import type { Narrator } from './narrator.ts';
import { remoteHead } from './refs.ts';

/*
 * One mirror: a bare repository that follows one remote, in a folder of its own.
 *
 *   lock             held while the mirror is written (exclusive) or its files are shared with a checkout (shared);
 *                    its time of change says when the mirror was last used
 *   repository.git   what the remote has. Branches and tags follow it, objects are never thrown away: what was
 *                    built once can be built again after the remote overwrote or deleted its branch
 *   writing          is there while somebody writes; found by the next one, it means that the writer died
 *
 * Reading needs no lock: git reads well beside a fetch. When the mirror is replaced or collected in
 * that very moment, the reader fails and comes back as one who fetches.
 */

export interface Mirror {
  folder: string;
  gitDir: string;
}

export interface Remote {
  url: string;
  ssh: string;
  narrator: Narrator;
  signal: AbortSignal;
  longestSilenceMs: number;
  /** The error for what went wrong there, with words for this remote. */
  failure(kind: RemoteFailure): FetchError;
}

const everything = ['+refs/heads/*:refs/heads/*', '+refs/tags/*:refs/tags/*', `+HEAD*:${remoteHead}*`];

export function mirrorAt(folder: string): Mirror {
  return { folder, gitDir: join(folder, 'repository.git') };
}

/** Runs `work` while no other process writes to the mirror. */
export async function whileWriting<T>(
  mirror: Mirror,
  narrator: Narrator,
  signal: AbortSignal,
  work: (lock: FileLock) => Promise<T>,
): Promise<T> {
  const path = join(mirror.folder, 'lock');
  let lock = await tryLockFile(path, 'exclusive');
  if (lock === undefined) {
    narrator.line('Waiting for another fetch of this repository.');
    lock = await lockFile(path, 'exclusive', signal);
  }
  try {
    const marker = join(mirror.folder, 'writing');
    if (await exists(marker)) await cleanUpAfterTheDead(mirror);
    await writeFile(marker, '');
    const result = await work(lock);
    await rm(marker); // after a failure it stays: what was killed may have left its temporary files
    return result;
  } finally {
    await lock.release();
  }
}

export async function whileSharing<T>(mirror: Mirror, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  const lock = await lockFile(join(mirror.folder, 'lock'), 'shared', signal);
  try {
    return await work();
  } finally {
    await lock.release();
  }
}

/** The age of a mirror counts from here, see collect.ts. */
export async function noteUse(mirror: Mirror): Promise<void> {
  const now = new Date();
  await utimes(join(mirror.folder, 'lock'), now, now).catch(() => {}); // collected meanwhile: nothing to note
}

/** Brings every branch and tag up to date. */
export async function update(mirror: Mirror, remote: Remote, lock: FileLock): Promise<void> {
  await createIfMissing(mirror.gitDir);
  await fetchInto(mirror.gitDir, remote, lock, everything, '--prune');
}

/** Fetches everything anew. The old mirror goes when the new one is whole: the trouble may lie elsewhere. */
export async function rebuild(mirror: Mirror, remote: Remote, lock: FileLock): Promise<void> {
  remote.narrator.line('The copy of the repository on this runner is damaged. Fetching all of it anew.');
  const fresh = join(mirror.folder, 'fresh.git');
  const broken = join(mirror.folder, 'broken.git');
  await Promise.all([fresh, broken].map((path) => rm(path, { recursive: true, force: true })));
  await createIfMissing(fresh);
  await fetchInto(fresh, remote, lock, everything, '--prune').catch((error: unknown) => {
    // What also happens to an empty mirror is the other side's doing.
    throw error instanceof GitError && error.mayBeDamage ? remote.failure('remote_failed') : error;
  });
  if (await exists(mirror.gitDir)) await rename(mirror.gitDir, broken);
  await rename(fresh, mirror.gitDir);
  await rm(broken, { recursive: true, force: true });
}

/** Asks for one commit that no branch or tag leads to. False when the remote does not give it. */
export async function fetchCommit(mirror: Mirror, remote: Remote, lock: FileLock, sha: string): Promise<boolean> {
  try {
    await fetchInto(mirror.gitDir, remote, lock, [sha]);
    return true;
  } catch (error) {
    if (error instanceof FetchError && error.kind === 'commit_withheld') return false;
    throw error;
  }
}

async function createIfMissing(gitDir: string): Promise<void> {
  if (await exists(join(gitDir, 'HEAD'))) return;
  await mkdir(gitDir, { recursive: true, mode: 0o700 });
  const init = ['init', '--quiet', '--bare', '--template=', '--initial-branch=headrace'];
  expectSuccess('making a mirror', await git(gitDir, init));
}

async function fetchInto(
  gitDir: string,
  remote: Remote,
  lock: FileLock,
  refspecs: readonly string[],
  ...flags: string[]
): Promise<void> {
  const { url, narrator, ssh, signal, longestSilenceMs } = remote;
  const how = ['fetch', '--progress', '--no-tags', '--no-write-fetch-head', ...flags];
  const options = { cwd: gitDir, ssh, signal, longestSilenceMs, inherit: [lock.fd], onStderr: narrator.output };
  const finished = await longGit([`--git-dir=${gitDir}`, ...how, '--end-of-options', url, ...refspecs], options).catch(
    (error: unknown) => {
      throw error instanceof SilenceError ? remote.failure('connection_lost') : error;
    },
  );
  if (finished.status === 0) return;
  const kind = recognize(finished.stderr.toString());
  throw kind === undefined ? new GitError('fetching', finished) : remote.failure(kind);
}

/** Under the lock nobody else writes, so whatever locks and temporary files there are belong to nobody. */
async function cleanUpAfterTheDead(mirror: Mirror): Promise<void> {
  for (const name of ['fresh.git', 'broken.git']) {
    await rm(join(mirror.folder, name), { recursive: true, force: true });
  }
  if (!(await exists(mirror.gitDir))) return;
  for (const entry of await readdir(mirror.gitDir, { recursive: true, withFileTypes: true })) {
    const leftover = entry.name.endsWith('.lock') || entry.name.startsWith('tmp_') || entry.name.endsWith('.keep');
    if (entry.isFile() && leftover) await unlink(join(entry.parentPath, entry.name));
  }
}

export async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
