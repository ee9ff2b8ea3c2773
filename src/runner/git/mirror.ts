import { lchown, mkdir, readdir, rename, rm, utimes, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { lockFile, tryLockFile } from '../../shared/lib/file-lock.ts';
import { pathExists } from '../../shared/lib/path-exists.ts';
import { run } from '../../shared/lib/processes.ts';
import { removeTree } from '../../shared/lib/remove-tree.ts';
import { FetchError, type RemoteFailure } from './failures.ts';
import { expectSuccess, GitError, type GitOutput } from './git.ts';
import type { LogWriter } from './narrator.ts';
import { withoutProgress } from './progress.ts';
import { remoteHead, specialRef } from './refs.ts';
import { SilenceError, type RunOptions, type Session } from './session.ts';
import type { SessionRequest, Sessions } from './sessions.ts';
import type { Service, Way } from './channel.ts';

/*
 * One mirror: a bare repository that follows one remote, in its own folder.
 *
 *   lock             held while the mirror is written (exclusive) or its files are shared with a checkout (shared);
 *                    its change time is the last use of the mirror
 *   repository.git   the copy of the remote. Branches and tags follow the remote, but objects are never removed: a
 *                    built commit can be built again after the remote overwrote or deleted its branch
 *   writing          exists while a process writes; if the next writer finds it, the last writer died
 *
 * Reading needs no lock: git can read during a fetch. If the mirror is replaced or removed at that moment, the reader
 * fails and then fetches.
 *
 * repository.git was written by a git that a hostile repository may have misled. So only sessions touch it. The
 * runner's own process, which may be root, only opens the packs in it that a checkout shares.
 */

export interface Mirror {
  folder: string;
  gitDir: string;
}

export interface Remote {
  /** The URL for git. */
  url: string;
  /** How a session gets there, for these commands. */
  way(...services: Service[]): Way;
  narrator: LogWriter;
  signal: AbortSignal;
  longestSilenceMs: number;
  /** The error for a failure, in words for this remote. */
  failure(kind: RemoteFailure): FetchError;
  /** The same, from the output of programs; undefined where that does not point to the remote. */
  explain(said: GitOutput): FetchError | undefined;
}

const branches = 'refs/heads';
/** The target of HEAD while the default branch is unknown; no remote has a branch of this name by accident. */
const nobodysBranch = `${branches}/headrace`;
const everything = ['+refs/heads/*:refs/heads/*', '+refs/tags/*:refs/tags/*', `+HEAD*:${remoteHead}*`];

export function mirrorAt(folder: string): Mirror {
  return { folder, gitDir: join(folder, 'repository.git') };
}

/** Runs `work` while no other process writes to the mirror. */
export async function whileLocked<T>(
  mirror: Mirror,
  narrator: LogWriter,
  signal: AbortSignal,
  work: () => Promise<T>,
): Promise<T> {
  const path = join(mirror.folder, 'lock');
  let lock = await tryLockFile(path, 'exclusive');
  if (lock === undefined) {
    narrator.line('Waiting for another fetch of this repository.');
    lock = await lockFile(path, 'exclusive', signal);
  }
  try {
    return await work();
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
  await utimes(join(mirror.folder, 'lock'), now, now).catch(() => {}); // removed meanwhile: nothing to note
}

/**
 * Opens a session that writes to the mirror, which is created if it is missing; the caller holds the lock. `write` does
 * the writing, and `read` gets its result in the same session. When `write` fails, all its changes are removed.
 */
export async function writeTo<W, T>(
  sessions: Sessions,
  mirror: Mirror,
  how: Pick<SessionRequest, 'signal' | 'way'>,
  write: (session: Session) => Promise<W>,
  read: (session: Session, written: W) => Promise<T>,
): Promise<T> {
  const marker = join(mirror.folder, 'writing');
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

/** Updates every branch and tag, and the mirror's HEAD, which is the remote's default branch. */
export async function update(session: Session, remote: Remote): Promise<void> {
  await fetchInto(session, remote, everything, '--prune');
  await followHead(session, remote);
}

/**
 * A fetch tells the commit of the remote's HEAD, not its branch. Mostly only one branch ends in that commit; where
 * several do, the remote is asked.
 */
async function followHead(session: Session, remote: Remote): Promise<void> {
  const args = ['for-each-ref', `--points-at=${remoteHead}`, '--format=%(HEAD)%(refname)', branches];
  const listed = await session.git(args);
  const ending = listed.status === 0 ? listed.stdout.toString().split('\n').slice(0, -1) : [];
  const [only = ''] = ending;
  if (ending.length === 1 && only.startsWith('*')) return;
  const name = ending.length > 1 ? await askForHead(session, remote) : only.slice(1);
  const known = ending.map((line) => line.slice(1)).find((branch) => branch === name) ?? nobodysBranch;
  expectSuccess('noting the default branch', await session.git(['symbolic-ref', 'HEAD', known]));
}

async function askForHead(session: Session, remote: Remote): Promise<string | undefined> {
  const listed = await talk(session, remote, ['ls-remote', '--symref', remote.url, 'HEAD']);
  return /^ref: (refs\/heads\/[^\s]{1,512})\tHEAD$/m.exec(listed.stdout.toString().slice(0, 4096))?.[1];
}

/**
 * Fetches everything again. The old mirror is removed when the new one is complete, because the cause may lie
 * elsewhere.
 */
export async function rebuild(sessions: Sessions, mirror: Mirror, remote: Remote): Promise<void> {
  remote.narrator.line('The copy of the repository on this runner is damaged. Fetching all of it anew.');
  const fresh = join(mirror.folder, 'fresh.git');
  const broken = join(mirror.folder, 'broken.git');
  const marker = join(mirror.folder, 'writing');
  await writeFile(marker, '');
  await Promise.all([fresh, broken].map(removeTree));
  await makeFolder(fresh, sessions.owner);
  try {
    const way = remote.way('git-upload-pack');
    await sessions.use({ directory: fresh, access: 'write', signal: remote.signal, way }, async (session) => {
      await init(session);
      await update(session, remote);
    });
  } catch (error) {
    await removeTree(fresh);
    await rm(marker);
    // A failure that an empty mirror has too is caused by the remote.
    throw error instanceof GitError && error.mayBeDamage ? remote.failure('remote_failed') : error;
  }
  if (await pathExists(mirror.gitDir)) await rename(mirror.gitDir, broken);
  await rename(fresh, mirror.gitDir);
  await removeTree(broken);
  await rm(marker);
}

/** Requests a commit that no branch or tag reaches, or a special ref. False when the remote does not have it. */
export async function fetchSpecial(session: Session, remote: Remote, what: string): Promise<boolean> {
  try {
    await fetchInto(session, remote, [`+${what}:${specialRef}`]);
    return true;
  } catch (error) {
    if (error instanceof FetchError && error.kind === 'commit_withheld') return false;
    throw error;
  }
}

async function init(session: Session): Promise<void> {
  const how = ['init', '--quiet', '--bare', '--template=', `--initial-branch=${basename(nobodysBranch)}`];
  expectSuccess('making a mirror', await session.git(how));
}

async function fetchInto(
  session: Session,
  remote: Remote,
  refspecs: readonly string[],
  ...flags: string[]
): Promise<void> {
  const how = ['fetch', '--progress', '--no-tags', '--no-write-fetch-head', ...flags];
  const args = [...how, '--end-of-options', remote.url, ...refspecs];
  const finished = await talk(session, remote, args);
  if (finished.status === 0) return;
  throw remote.explain(finished) ?? new GitError('fetching', finished);
}

/** Runs a git that talks to the remote, in a session that has a way there. */
export async function talk(
  session: Session,
  remote: Remote,
  args: readonly string[],
  options: Pick<RunOptions, 'maxOutput'> = {},
): Promise<GitOutput> {
  const { narrator, longestSilenceMs } = remote;
  const filtered = withoutProgress(narrator.output);
  try {
    return await session.git(args, { ...options, onStderr: filtered.output, longestSilenceMs });
  } catch (error) {
    throw error instanceof SilenceError ? remote.failure('connection_lost') : error;
  } finally {
    await filtered.flush().catch(() => {}); // a log that accepts no more output ends the job elsewhere
  }
}

/** Files that git has only while it writes. */
const unfinished = ['*.lock', 'tmp_*', '*.keep'];

/**
 * Under the lock no other process writes, so all lock and temporary files here are left over. The processes of the
 * session have ended, so none of them can put a link in the way of `find`, which follows none. This does not run in a
 * session: opening one needs room on the disk, and this makes room on a full one.
 */
async function cleanUp(mirror: Mirror): Promise<void> {
  await Promise.all(['fresh.git', 'broken.git'].map((name) => removeTree(join(mirror.folder, name))));
  if (!(await pathExists(mirror.gitDir, 'directory'))) return;
  const names = unfinished.flatMap((name) => ['-o', '-name', name]).slice(1);
  const how = ['-P', mirror.gitDir, '-xdev', '-type', 'f', '(', ...names, ')', '-delete'];
  const { status, stderr } = await run('find', how, { maxOutput: 2000 });
  if (status !== 0) throw new Error(`cleanup of ${mirror.gitDir} failed: ${stderr.toString().trim()}`);
}

/** At the start: removes the files of writers that died, in mirrors that are not in use. */
export async function sweepMirrors(dir: string, log: (message: string) => void): Promise<void> {
  const root = join(dir, 'mirrors');
  for (const project of await namesIn(root)) {
    for (const name of await namesIn(join(root, project))) {
      const mirror = mirrorAt(join(root, project, name));
      if (!(await pathExists(join(mirror.folder, 'writing')))) continue;
      await sweepMirror(mirror).catch((error: unknown) => log(String(error))); // the next writer tries again
    }
  }
}

async function sweepMirror(mirror: Mirror): Promise<void> {
  const lock = await tryLockFile(join(mirror.folder, 'lock'), 'exclusive');
  if (lock === undefined) return;
  try {
    await cleanUp(mirror);
    await rm(join(mirror.folder, 'writing'), { force: true });
  } finally {
    await lock.release();
  }
}

export async function namesIn(folder: string): Promise<string[]> {
  return readdir(folder).catch(() => []);
}

/** True when it was created just now. */
async function makeFolder(path: string, owner: Sessions['owner']): Promise<boolean> {
  try {
    await mkdir(path, { mode: 0o700 });
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false;
    throw error;
  }
  await lchown(path, owner.uid, owner.gid);
  return true;
}

/**
 * The files of the mirror's packs, for the holder of the lock, so no process writes. Files of a wrong type are left
 * out, and all of them when a directory on the way is a link.
 */
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
