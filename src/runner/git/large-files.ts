import { copyFile, constants, lchown, mkdir, readdir, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isNoSpace } from '../../lib/disk-reserve.ts';
import { FetchError } from './failures.ts';
import { git } from './git.ts';
import { downloadLargeFiles } from './lfs-api.ts';
import { askForLfsPlace, publicLfsPlace } from './lfs-place.ts';
import type { Pointer } from './lfs-store.ts';
import { transferLargeFiles } from './lfs-transfer.ts';
import { connected, mirrorOf, type Source, type GitServices } from './obtain.ts';
import { UnavailableError } from './public-https.ts';
import type { Session } from './session.ts';
import { trimEnd } from './words.ts';
import { sourceFile } from '../../lib/source-files.ts';

/*
 * Git LFS: large files are stored beside the repository, which holds pointers in their places.
 *
 * The pointers are found in the new work tree by the repository's attributes, in the session that wrote it. The files
 * are stored beside the mirror, each under its SHA-256, which is checked on arrival. From there a session puts them in
 * place. If the host does not deliver a file, its pointer stays, and the build's log says so.
 */

const findProgram = readFileSync(sourceFile('runner/git/large-pointers.pl'), 'utf8');
const placeProgram = readFileSync(sourceFile('runner/git/large-place.pl'), 'utf8');
const mostOfPointers = 8 * 1024 * 1024;
/** The folders of stored files beside a mirror. */
const [keptForOwn, keptForForks] = ['lfs', 'lfs-public'];

/** The pointers in the session's work tree, and whether these are all. */
export async function findPointers({ directory, run }: Session): Promise<{ pointers: Pointer[]; areAll: boolean }> {
  const list = [...git, '--git-dir=.git', '--work-tree=.', 'ls-files', '-z', '--', ':(attr:filter=lfs)'];
  const script = 'cd "$1" && program=$2 && shift 2 && ("$@" || echo failed >&2) | perl -e "$program"';
  const options = { maxOutput: mostOfPointers };
  const { stdout, stderr, status, truncated } = await run(
    ['sh', '-c', script, 'sh', directory, findProgram, ...list],
    options,
  );
  const lines = stdout.toString('latin1').split('\0').slice(0, -1);
  const pointers = lines.flatMap((line) => {
    const [, oid = '', size = '', path = ''] = /^([0-9a-f]{64}) (\d{1,15}) ([^]+)$/.exec(line) ?? [];
    return oid === '' ? [] : [{ oid, size: Number(size), path }];
  });
  return { pointers, areAll: status === 0 && stderr.length === 0 && !truncated };
}

/** A work tree that contains pointers. */
export interface PointedTree {
  source: Source;
  pointers: readonly Pointer[];
}

/** The result for a tree's pointers: the directory to place files from, and why some are missing. */
export interface LargeFiles {
  objects: string | undefined;
  miss: { sentence: string; isLasting: boolean } | undefined;
}

/** Brings the files of the pointers into a new directory, from which a session places them. */
export async function bringLargeFiles(
  services: GitServices,
  { source, pointers }: PointedTree,
  objects: string,
): Promise<LargeFiles> {
  // A fork gets none that came with the key: whoever knows a hash could read the files of other branches.
  const kept = join(mirrorOf(services, source).folder, source.isFork ? keptForForks : keptForOwn);
  const wanted = new Map(pointers.map((pointer) => [pointer.oid, pointer]));
  let why: UnavailableError | undefined;
  try {
    const bytes = Array.from(wanted.values()).reduce((sum, { size }) => sum + size, 0);
    if (bytes > services.checkoutBytes) {
      throw new UnavailableError('they take more than a checkout may have (HEADRACE_CHECKOUT_SIZE)', true);
    }
    const known = await namesIn(kept);
    const missing = Array.from(wanted.values()).filter(({ oid }) => !known.has(oid));
    if (missing.length > 0) {
      source.narrator.line(`Fetching ${missing.length} files of Git LFS.`);
      await mkdir(kept, { recursive: true, mode: 0o700 });
      why = await fetchMissing(services, source, missing, kept);
    }
  } catch (error) {
    source.signal.throwIfAborted();
    why = asMiss(error);
  }
  const here = await namesIn(kept);
  const placed = pointers.filter(({ oid }) => here.has(oid));
  if (placed.length > 0) await layOut(services, kept, placed, objects).catch(unlessFull);
  const missed = pointers.filter(({ oid }) => !here.has(oid));
  return {
    objects: placed.length > 0 ? objects : undefined,
    miss:
      missed.length === 0
        ? undefined
        : { sentence: sentenceOf(missed, why, source), isLasting: why?.isLasting ?? true },
  };
}

/**
 * Over SSH where the host supports it, else over HTTPS from the address that the host names; for a public repository, and
 * for a fork's commit, directly and without credentials.
 */
async function fetchMissing(
  services: GitServices,
  source: Source,
  missing: readonly Pointer[],
  folder: string,
): Promise<UnavailableError | undefined> {
  const { address, signal } = source;
  const store = { folder, takeRoom: services.takeRoom, signal };
  if (source.isFork || address.transport === 'https') {
    return downloadLargeFiles(services.https, publicLfsPlace(address), missing, store);
  }
  return connected(services, source, async (ssh) => {
    const remote = { ssh, destination: address.destination, path: address.path };
    const transferred = await transferLargeFiles(remote, missing, store);
    if (transferred !== false) return transferred;
    const place = await askForLfsPlace(remote, signal);
    if (place === undefined) throw new UnavailableError(`the host ${address.host} has no Git LFS over SSH`, true);
    return downloadLargeFiles(services.https, place, missing, store);
  });
}

function unlessFull(error: unknown): never {
  if (!isNoSpace(error)) throw error;
  throw new FetchError('disk_full', 'The disk of this runner has no room for the files of Git LFS.');
}

function asMiss(error: unknown): UnavailableError {
  if (error instanceof UnavailableError) return error;
  // The host could not be reached for these files only: the commit itself is here.
  if (error instanceof FetchError) return new UnavailableError(trimEnd(error.message, '.'), false);
  return unlessFull(error);
}

function sentenceOf(
  [first, ...more]: readonly Pointer[],
  why: UnavailableError | undefined,
  { isFork }: Source,
): string {
  const path = Buffer.from(first?.path ?? '', 'latin1')
    .toString()
    .replaceAll(/\p{Cc}/gu, '?')
    .slice(0, 200);
  const which =
    more.length === 0
      ? `The file ${path} of Git LFS was`
      : `${more.length + 1} files of Git LFS, such as ${path}, were`;
  const how = isFork ? ' For a commit from a fork they are fetched without the key of the project.' : '';
  return `${which} not fetched, and the pointer stands in its place: ${why?.message ?? 'the host does not have it'}.${how}`;
}

async function namesIn(folder: string): Promise<Set<string>> {
  return new Set(await readdir(folder).catch(() => []));
}

/** Copies, so that only the runner ever has access to the stored files. */
async function layOut(
  { sessions }: GitServices,
  kept: string,
  placed: readonly Pointer[],
  objects: string,
): Promise<void> {
  await mkdir(objects, { mode: 0o755 });
  const now = new Date();
  const names = new Set(placed.map(({ oid }) => oid));
  const list = placed.map(({ oid, path }) => `${oid}\0${path}\0`).join('');
  await writeFile(join(objects, 'list'), list, 'latin1');
  for (const name of names) {
    await copyFile(join(kept, name), join(objects, name), constants.COPYFILE_FICLONE);
    await utimes(join(kept, name), now, now);
  }
  const { uid, gid } = sessions.owner;
  for (const path of [...names, 'list', '.']) await lchown(join(objects, path), uid, gid);
}

/** Runs in a session that sees the tree and the objects. */
export async function placeLargeFiles({ run }: Session, tree: string, objects: string): Promise<void> {
  const { status, stderr } = await run(['perl', '-e', placeProgram, '--', tree, objects]);
  if (status !== 0) throw new Error(`large files could not be moved into their places: ${stderr.toString()}`);
}

/** Removes files that no checkout needed for this long, and the remains of broken downloads. */
export async function forgetLargeFiles(mirrorFolder: string, unusedForMs: number): Promise<void> {
  for (const kept of [keptForOwn, keptForForks].map((name) => join(mirrorFolder, name))) {
    for (const name of await namesIn(kept)) {
      const found = await stat(join(kept, name)).catch(() => undefined);
      if (found !== undefined && Date.now() - found.mtimeMs > unusedForMs) await rm(join(kept, name), { force: true });
    }
  }
}
