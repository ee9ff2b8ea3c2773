import { readFileSync } from 'node:fs';
import { lstat } from 'node:fs/promises';
import type { DiskReserve } from '../../lib/disk-reserve.ts';
import { randomName } from '../../lib/random-name.ts';
import type { Ended, Job, Limits, Sandboxes } from '../sandbox/types.ts';
import { limitReached } from './failures.ts';
import { GitError, gitEnvironment } from './git.ts';
import { openPipeMaker } from './pipes.ts';
import { openSession, type Session } from './session.ts';

/*
 * Where git works: a sandbox per session, which sees one directory, and no network. Whatever a repository makes git
 * do, it does to that directory alone, with the memory, processes and time of that session, and all of it ends with it.
 */

export interface SessionsOptions {
  /** For git alone, without a network. */
  sandboxes: Sandboxes;
  /** `off`: the sandboxes are plain processes, that see the directories where they are. */
  isolation: 'required' | 'off';
  /** For the pipes; nobody else may enter it. */
  folder: string;
  limits: Limits;
  /** What is written stays above its reserve. */
  disk?: Pick<DiskReserve, 'room'> | undefined;
}

export interface SessionRequest {
  directory: string;
  access: 'read' | 'write';
  signal: AbortSignal;
  /** When it is not the usual one. */
  timeoutMs?: number | undefined;
}

export interface Sessions {
  /** Whom the directories belong to that git writes to. */
  readonly owner: Sandboxes['owner'];
  /**
   * Opens a session for `work`, and closes it afterwards. When one that wrote answers, none of its processes lives any
   * more; nobody waits for that after reading. What reached a limit is thrown as a FetchError.
   */
  use<T>(request: SessionRequest, work: (session: Session) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

const source = (name: string): string => quote(readFileSync(new URL(name, import.meta.url), 'utf8'));
const sessionProgram = source('session.pl');
const relayProgram = source('relay.pl');

export function openSessions({ sandboxes, isolation, folder, limits, disk }: SessionsOptions): Sessions {
  const pipes = openPipeMaker(folder);
  const leaving = new Set<Promise<void>>();

  /** All that is different without isolation. */
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
      // With a failing status, so that the sandbox tells when it was for want of memory.
      session.exit(1);
      await gone;
      if (request.signal.aborted) throw request.signal.reason;
      const shortage = error instanceof GitError ? error.shortage : null;
      throw limitReached((await ended).reason ?? shortage, limits) ?? error;
    }
  }

  /**
   * What arrives comes in one pack, which no look at the disk now and then could stop in time: so the kernel does. A
   * disk that somebody else has filled has room for a small one all the same, that is what its reserve is for.
   */
  async function largestFile(): Promise<number> {
    if (!disk) return Infinity;
    const room = Math.max(await disk.room(), Math.min(smallFile, await disk.room('small')));
    const tooLittle = room <= 0 ? limitReached('out_of_disk', limits) : undefined;
    if (tooLittle) throw tooLittle;
    return room;
  }

  /** What an older runner made belongs to another user. */
  async function adopt(directory: string): Promise<void> {
    const { uid } = await lstat(directory);
    if (uid !== sandboxes.owner.uid) await sandboxes.adopt(directory);
  }

  return { owner: sandboxes.owner, use, close: async () => void (await Promise.all([pipes.close(), ...leaving])) };
}

const smallFile = 16 * 1024 * 1024;

/** For a shell, which counts in blocks of 512 bytes. Without the signal, who writes more lives to tell of it. */
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
