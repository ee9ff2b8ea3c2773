import { readFileSync } from 'node:fs';
import { lstat } from 'node:fs/promises';
import type { DiskReserve } from '../../lib/disk-reserve.ts';
import { randomName } from '../../lib/random-name.ts';
import type { Ended, Job, Limits, Sandboxes } from '../sandbox/types.ts';
import { limitReached } from './failures.ts';
import { GitError, gitEnvironment } from './git.ts';
import { openPipeMaker } from './pipes.ts';
import { openSession, type Session } from './session.ts';
import { sourceFile } from '../../lib/source-files.ts';

/*
 * The sandboxes of git: one per session, which sees one directory and no network. A hostile repository can only affect
 * that directory, with the memory, processes and time of that session, and all of it ends with the session.
 */

export interface SessionsOptions {
  /** For git only, without a network. */
  sandboxes: Sandboxes;
  /** `off`: the sandboxes are plain processes, which see the directories at their real paths. */
  isolation: 'required' | 'off';
  /** For the pipes; no other user may enter it. */
  folder: string;
  limits: Limits;
  /** Written data stays above its reserve. */
  disk?: Pick<DiskReserve, 'room'> | undefined;
}

export interface SessionRequest {
  directory: string;
  access: 'read' | 'write';
  signal: AbortSignal;
  /** If it differs from the default. */
  timeoutMs?: number | undefined;
}

export interface Sessions {
  /** The owner of the directories that git writes to. */
  readonly owner: Sandboxes['owner'];
  /**
   * Opens a session for `work`, and closes it afterwards. After a writing session, none of its processes is alive when
   * this returns; after a reading one, it does not wait for that. A session that reached a limit throws a FetchError.
   */
  use<T>(request: SessionRequest, work: (session: Session) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

const source = (name: string): string => quote(readFileSync(sourceFile('runner/git', name), 'utf8'));
const sessionProgram = source('session.pl');
const relayProgram = source('relay.pl');

export function openSessions({ sandboxes, isolation, folder, limits, disk }: SessionsOptions): Sessions {
  const pipes = openPipeMaker(folder);
  const leaving = new Set<Promise<void>>();

  /** Everything that differs without isolation. */
  function placesFor(request: SessionRequest, own: string): Pick<Job, 'workspace' | 'mounts'> & Inside {
    if (isolation === 'off')
      return { workspace: { empty: true }, mounts: [], pipes: own, directory: request.directory };
    const inside = { pipes: '/session', directory: '/repository' };
    const place = request.access === 'write' ? { writable: request.directory } : { layers: [request.directory] };
    return {
      ...inside,
      workspace: { empty: true },
      mounts: [
        { at: inside.pipes, layers: [own] },
        { at: inside.directory, ...place },
      ],
    };
  }

  async function use<T>(request: SessionRequest, work: (session: Session) => Promise<T>): Promise<T> {
    request.signal.throwIfAborted();
    await adopt(request.directory);
    const bounds = request.access === 'write' ? boundsOn(await largestFile()) : '';
    const own = await pipes.take();
    const ending = new AbortController();
    const inside = placesFor(request, own);
    const signal = AbortSignal.any([request.signal, ending.signal]);
    const end = (reason: Error): void => ending.abort(reason);
    const session = openSession({ pipes: own, directory: inside.directory, signal, end });
    const ended = sandboxes.run({
      id: randomName(),
      steps: [{ name: 'git', command: `${bounds}exec perl -e ${sessionProgram} ${quote(inside.pipes)} 2>/dev/null` }],
      environment: gitEnvironment(`exec perl -e ${relayProgram} ${quote(inside.pipes)}`),
      workspace: inside.workspace,
      ...(inside.mounts ? { mounts: inside.mounts } : {}),
      limits: { ...limits, timeoutMs: request.timeoutMs ?? limits.timeoutMs },
      output: session.hear,
      signal,
    });
    const over = ended.then(
      (end) => session.over(signal.aborted ? signal.reason : failureOf(end, limits)),
      (error: unknown) => session.over(error),
    );
    const gone = over.then(() => pipes.giveBack(own)).finally(() => leaving.delete(gone));
    leaving.add(gone);
    try {
      const result = await work(session);
      session.exit(0);
      if (request.access === 'write') await gone;
      return result;
    } catch (error) {
      // With a failing status, so that the sandbox reports a lack of memory.
      session.exit(1);
      await gone;
      if (request.signal.aborted) throw request.signal.reason;
      const shortage = error instanceof GitError ? error.shortage : null;
      throw limitReached((await ended).reason ?? shortage, limits) ?? error;
    }
  }

  /**
   * A fetch writes one pack, which periodic looks at the disk could not stop in time, so the kernel limits the file
   * size. A disk that others have filled still has room for a small pack: its reserve is for that.
   */
  async function largestFile(): Promise<number> {
    if (!disk) return Infinity;
    const room = Math.max(await disk.room(), Math.min(smallFile, await disk.room('small')));
    const tooLittle = room <= 0 ? limitReached('out_of_disk', limits) : undefined;
    if (tooLittle) throw tooLittle;
    return room;
  }

  /** A directory of an older runner belongs to another user. */
  async function adopt(directory: string): Promise<void> {
    const { uid } = await lstat(directory);
    if (uid !== sandboxes.owner.uid) await sandboxes.adopt(directory);
  }

  return { owner: sandboxes.owner, use, close: async () => void (await Promise.all([pipes.close(), ...leaving])) };
}

const smallFile = 16 * 1024 * 1024;

/**
 * For a shell, which counts in blocks of 512 bytes. Without the signal, a program that writes more survives and reports
 * it.
 */
function boundsOn(bytes: number): string {
  return bytes === Infinity ? '' : `trap '' XFSZ; ulimit -f ${Math.floor(bytes / 512)}; `;
}

interface Inside {
  pipes: string;
  directory: string;
}

function failureOf(ended: Ended, limits: Limits): Error {
  const how = ended.reason ?? `status ${ended.exitStatus}`;
  return limitReached(ended.reason, limits) ?? new Error(`the sandbox of git ended before its work was done: ${how}`);
}

function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
