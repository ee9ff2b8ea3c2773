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

export interface Remote {
  url: string;
  way(...services: Service[]): Way;
  narrator: LogWriter;
  signal: AbortSignal;
  longestSilenceMs: number;
  failure(kind: RemoteFailure): FetchError;
  /** Undefined if the output does not point to the remote. */
  explain(said: GitOutput): FetchError | undefined;
}

const branches = 'refs/heads';
/** The target of HEAD while the default branch is unknown. No remote has this branch by accident. */
const nobodysBranch = `${branches}/headrace`;
const everything = ['+refs/heads/*:refs/heads/*', '+refs/tags/*:refs/tags/*', `+HEAD*:${remoteHead}*`];

export function mirrorAt(folder: string): Mirror {
  return { folder, gitDir: join(folder, 'repository.git') };
}

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

export async function noteUse(mirror: Mirror): Promise<void> {
  const now = new Date();
  await utimes(join(mirror.folder, 'lock'), now, now).catch(() => {}); // removed meanwhile: nothing to note
}

/** The caller has the lock. If `write` fails, its changes are removed. `read` runs in the same session. */
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

export async function update(session: Session, remote: Remote): Promise<void> {
  await fetchInto(session, remote, everything, '--prune');
  await followHead(session, remote);
}

/** A fetch reports the commit of the remote's HEAD but not its branch. If several match, the remote is asked. */
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

/** Fetches everything into a new mirror, and then removes the old one: the cause may be elsewhere. */
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
    // If an empty mirror fails too, the remote is the cause.
    throw error instanceof GitError && error.mayBeDamage ? remote.failure('remote_failed') : error;
  }
  if (await pathExists(mirror.gitDir)) await rename(mirror.gitDir, broken);
  await rename(fresh, mirror.gitDir);
  await removeTree(broken);
  await rm(marker);
}

/** For a commit that no branch or tag reaches, or a special ref. False if the remote does not have it. */
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

const unfinished = ['*.lock', 'tmp_*', '*.keep'];

/**
 * Under the lock, all lock and temporary files are leftovers, and no process can put a link in the way of `find`. A
 * session cannot do this: it needs room, and this makes room on a full disk.
 */
async function cleanUp(mirror: Mirror): Promise<void> {
  await Promise.all(['fresh.git', 'broken.git'].map((name) => removeTree(join(mirror.folder, name))));
  if (!(await pathExists(mirror.gitDir, 'directory'))) return;
  const names = unfinished.flatMap((name) => ['-o', '-name', name]).slice(1);
  const how = ['-P', mirror.gitDir, '-xdev', '-type', 'f', '(', ...names, ')', '-delete'];
  const { status, stderr } = await run('find', how, { maxOutput: 2000 });
  if (status !== 0) throw new Error(`cleanup of ${mirror.gitDir} failed: ${stderr.toString().trim()}`);
}

/** At the start: removes files of writers that died, in mirrors that are not in use. */
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
