import { lchown, mkdir, readdir, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { lockFile, tryLockFile, type FileLock } from '../../shared/lib/file-lock.ts';
import { pathExists } from '../../shared/lib/path-exists.ts';
import { run } from '../../shared/lib/processes.ts';
import { removeTree } from '../../shared/lib/remove-tree.ts';
import { expectSuccess } from './git.ts';
import type { LogWriter } from './narrator.ts';
import { nobodysBranch } from './refs.ts';
import type { Session } from './session.ts';
import type { SessionRequest, Sessions } from './sessions.ts';

/*
 * A mirror is a bare repository that follows one remote, in its own folder.
 *
 *   lock             exclusive while the mirror is written, shared while a checkout shares its files;
 *                    its change time is the mirror's last use
 *   repository.git   branches and tags follow the remote, but no object is removed: a built commit can be rebuilt
 *                    after the remote deleted its branch
 *   writing          exists during a write; if the next writer finds it, the last writer died
 *
 * Reads need no lock. A read fails if the mirror is replaced or removed meanwhile, and then fetches. A hostile
 * repository may have misled git when it wrote repository.git, so only sessions touch it. The runner, which may be
 * root, only opens its packs to share them.
 */

export interface Mirror {
  folder: string;
  gitDir: string;
}

export function mirrorAt(folder: string): Mirror {
  return { folder, gitDir: join(folder, 'repository.git') };
}

const lockOf = ({ folder }: Mirror): string => join(folder, 'lock');
const markerOf = ({ folder }: Mirror): string => join(folder, 'writing');

export async function whileLocked<T>(
  mirror: Mirror,
  narrator: LogWriter,
  signal: AbortSignal,
  work: () => Promise<T>,
): Promise<T> {
  const free = await tryLockFile(lockOf(mirror), 'exclusive');
  if (free === undefined) narrator.line('Waiting for another fetch of this repository.');
  return holding(free ?? (await lockFile(lockOf(mirror), 'exclusive', signal)), work);
}

export async function whileSharing<T>(mirror: Mirror, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  return holding(await lockFile(lockOf(mirror), 'shared', signal), work);
}

/** Undefined if the mirror is in use. */
export async function ifFree<T>(mirror: Mirror, work: () => Promise<T>): Promise<T | undefined> {
  const lock = await tryLockFile(lockOf(mirror), 'exclusive');
  return lock && holding(lock, work);
}

async function holding<T>(lock: FileLock, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } finally {
    await lock.release();
  }
}

/** Zero for a folder without a lock: it was never complete. */
export async function lastUse(mirror: Mirror): Promise<number> {
  return stat(lockOf(mirror)).then(
    (found) => found.mtimeMs,
    () => 0,
  );
}

export async function noteUse(mirror: Mirror): Promise<void> {
  const now = new Date();
  await utimes(lockOf(mirror), now, now).catch(() => {}); // removed meanwhile: nothing to note
}

/** The caller has the lock. If `write` fails, its changes are removed. `read` runs in the same session. */
export async function writeTo<W, T>(
  sessions: Sessions,
  mirror: Mirror,
  how: Pick<SessionRequest, 'signal' | 'way'>,
  write: (session: Session) => Promise<W>,
  read: (session: Session, written: W) => Promise<T>,
): Promise<T> {
  const marker = markerOf(mirror);
  if (await pathExists(marker)) await cleanUp(mirror);
  await writeFile(marker, '');
  const isNew = await makeFolder(mirror.gitDir, sessions.owner);
  let isWritten = false;
  try {
    return await sessions.use({ directory: mirror.gitDir, access: 'write', ...how }, async (session) => {
      if (isNew) await init(session);
      const written = await write(session);
      await rm(marker);
      isWritten = true;
      return read(session, written);
    });
  } catch (error) {
    if (!isWritten) {
      const gone = isNew ? removeTree(mirror.gitDir) : cleanUp(mirror);
      await gone.then(() => rm(marker)).catch(() => {}); // otherwise the marker stays, and the next writer tries again
    }
    throw error;
  }
}

/** Removes the files of a writer that died. */
export async function sweep(mirror: Mirror): Promise<void> {
  if (!(await pathExists(markerOf(mirror)))) return;
  await ifFree(mirror, async () => {
    await cleanUp(mirror);
    await rm(markerOf(mirror), { force: true });
  });
}

/** Folders that exist beside a mirror only while it is replaced (repair.ts). */
export const [freshCopy, brokenCopy] = ['fresh.git', 'broken.git'] as const;

const unfinished = ['*.lock', 'tmp_*', '*.keep'];

/**
 * Under the lock, all lock and temporary files are leftovers, and no process can put a link in the way of `find`. A
 * session cannot do this: it needs room, and this makes room on a full disk.
 */
async function cleanUp({ folder, gitDir }: Mirror): Promise<void> {
  await Promise.all([freshCopy, brokenCopy].map((name) => removeTree(join(folder, name))));
  await deleteFiles(gitDir, ['(', ...unfinished.flatMap((name) => ['-o', '-name', name]).slice(1), ')']);
}

/** Deletes the files that match `which` (tests of `find`). Follows no link. */
export async function deleteFiles(folder: string, which: readonly string[]): Promise<void> {
  if (!(await pathExists(folder, 'directory'))) return;
  const how = ['-P', folder, '-xdev', '-type', 'f', ...which, '-delete'];
  const { status, stderr } = await run('find', how, { maxOutput: 2000 });
  if (status !== 0) throw new Error(`cleanup of ${folder} failed: ${stderr.toString().trim()}`);
}

export async function namesIn(folder: string): Promise<string[]> {
  return readdir(folder).catch(() => []);
}

/** False if it exists. */
export async function makeFolder(path: string, owner: Sessions['owner']): Promise<boolean> {
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false;
    throw error;
  }
  await lchown(path, owner.uid, owner.gid);
  return true;
}

export async function init(session: Session): Promise<void> {
  const how = ['init', '--quiet', '--bare', '--template=', `--initial-branch=${nobodysBranch}`];
  expectSuccess('making a mirror', await session.git(how));
}

/** The caller has the lock. Files of a wrong type are skipped, and all files if a directory on the way is a link. */
export async function packsOf(mirror: Mirror): Promise<string[]> {
  const folders = [mirror.gitDir, join(mirror.gitDir, 'objects'), join(mirror.gitDir, 'objects', 'pack')];
  for (const folder of folders) if (!(await pathExists(folder, 'directory'))) return [];
  const packs: string[] = [];
  for (const name of await readdir(folders[2] ?? '')) {
    const path = join(folders[2] ?? '', name);
    if (/^pack-[0-9a-f]{40,64}\.(pack|idx|rev)$/.test(name) && (await pathExists(path, 'file'))) packs.push(path);
  }
  return packs;
}
