import { readFileSync } from 'node:fs';
import { lstat } from 'node:fs/promises';
import { join } from 'node:path';
import { createMask } from '../../shared/domain/masking.ts';
import type { DiskReserve } from '../../shared/lib/disk-reserve.ts';
import { randomName } from '../../shared/lib/random-name.ts';
import { proxySocket } from '../filtering-proxy.ts';
import { machineTrust } from '../sandbox/etc.ts';
import { quote } from '../../shared/lib/shell-word.ts';
import type { Ended, Job, Limits, Mount, Sandboxes } from '../sandbox/types.ts';
import type { Way } from './channel.ts';
import { limitReached } from './failures.ts';
import { credentialEnvironment, GitError, gitEnvironment } from './git.ts';
import { openSession, type Session } from './session.ts';
import { authoritiesFile, openDoors, runnerSocket, type Doors, type DoorsOptions } from './session-doors.ts';
import { sourceFile } from '../../shared/lib/source-files.ts';

/*
 * git's sandboxes: one per session, which sees one directory and no network. A hostile repository can only affect that
 * directory, within the session's limits.
 */

export interface SessionsOptions {
  /** Without a network. */
  sandboxes: Sandboxes;
  /** `off`: plain processes, which see the directories at their real paths. */
  isolation: 'required' | 'off';
  /** For the sockets; no other user may enter it. */
  folder: string;
  limits: Limits;
  proxy: DoorsOptions['proxy'];
  authorities?: DoorsOptions['authorities'];
  /** Written data leaves its reserve free. */
  disk?: Pick<DiskReserve, 'room'> | undefined;
}

export interface SessionRequest {
  /** Without it, the session only sees the machine's programs. */
  directory?: string;
  access: 'read' | 'write';
  /** The largest file that the session may write, if the disk has room for more. */
  largestFile?: number;
  store?: string | undefined;
  signal: AbortSignal;
  /** How programs reach their remote; without it they reach nothing. */
  way?: Way | undefined;
  limits?: Partial<Limits>;
}

export interface Sessions {
  readonly owner: Sandboxes['owner'];
  /** When this returns, a writing session has no processes left. At a limit, it throws a FetchError. */
  use<T>(request: SessionRequest, work: (session: Session) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

const source = (name: string): string => quote(readFileSync(sourceFile('runner', name), 'utf8'));
const sessionProgram = source('git/session.pl');
const relayProgram = source('git/relay.pl');
const proxyRelayProgram = source('proxy-relay.pl');

export function openSessions({
  sandboxes,
  isolation,
  folder,
  limits,
  proxy,
  authorities,
  disk,
}: SessionsOptions): Sessions {
  const leaving = new Set<Promise<void>>();
  let count = 0;

  function placesFor({ access, directory, store, way }: SessionRequest, own: string): Pick<Job, 'mounts'> & Inside {
    if (isolation === 'off') return { mounts: [], sockets: own, directory: directory ?? own, store: store ?? own };
    const inside = { sockets: '/session', directory: '/repository', store: '/store' };
    const mounts: Mount[] = [{ at: inside.sockets, layers: [own] }];
    if (directory !== undefined)
      mounts.push({
        at: inside.directory,
        ...(access === 'write' ? { writable: directory } : { layers: [directory] }),
      });
    if (store !== undefined) mounts.push({ at: inside.store, writable: store });
    if (way?.https !== undefined) mounts.push(...machineTrust());
    return { ...inside, mounts };
  }

  function programFor(
    { way }: SessionRequest,
    { sockets }: Inside,
    bounds: string,
  ): Pick<Job, 'steps' | 'environment'> {
    const https = way?.https;
    const at = (name: string): string => quote(join(sockets, name));
    const proxied = https ? `perl -e ${proxyRelayProgram} ${at(proxySocket)} '' '' ` : '';
    const command = `${bounds}exec ${proxied}perl -e ${sessionProgram} ${at(runnerSocket)} 2>/dev/null`;
    return {
      steps: [{ name: 'git', command }],
      environment: {
        ...gitEnvironment(`exec perl -e ${relayProgram} ${quote(sockets)}`, https ? 'https' : 'ssh'),
        ...(https && authorities !== undefined ? { GIT_SSL_CAINFO: join(sockets, authoritiesFile) } : {}),
        ...(https?.credential && credentialEnvironment(https.credential)),
      },
    };
  }

  async function use<T>(request: SessionRequest, work: (session: Session) => Promise<T>): Promise<T> {
    const { directory, store, access, way } = request;
    request.signal.throwIfAborted();
    for (const path of [directory, store]) if (path !== undefined) await adopt(path);
    const bounds = access === 'write' ? boundsOn(Math.min(request.largestFile ?? Infinity, await largestFile())) : '';
    const own = join(folder, `session-${++count}`);
    const ending = new AbortController();
    const inside = placesFor(request, own);
    const signal = AbortSignal.any([request.signal, ending.signal]);
    const end = (reason: Error): void => ending.abort(reason);
    const { username = '', password = '' } = way?.https?.credential ?? way?.https?.largeFiles ?? {};
    const mask = createMask([password, `${username}:${password}`]);
    const session = openSession({ ...inside, mask, troubles: () => doors.troubles, signal, end });
    const doors: Doors = await openDoors(own, { way, proxy, authorities, signal: request.signal, session });
    const ownLimits = { ...limits, ...request.limits };
    const ended = sandboxes.run({
      id: randomName(),
      ...programFor(request, inside, bounds),
      workspace: { empty: true },
      mounts: inside.mounts ?? [],
      limits: ownLimits,
      output: session.hear,
      signal,
    });
    const over = ended.then(
      (end) => session.over(signal.aborted ? signal.reason : failureOf(end, ownLimits)),
      (error: unknown) => session.over(error),
    );
    const gone = over.then(() => doors.close()).finally(() => leaving.delete(gone));
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
      throw limitReached((await ended).reason ?? shortage, ownLimits) ?? error;
    }
  }

  /**
   * Periodic checks would stop a fetch's pack too late, so the kernel limits it. A small pack may use half of the
   * disk's reserve.
   */
  async function largestFile(): Promise<number> {
    if (!disk) return Infinity;
    const room = Math.max(await disk.room(), Math.min(smallFile, await disk.room('small')));
    const tooLittle = room <= 0 ? limitReached('out_of_disk', limits) : undefined;
    if (tooLittle) throw tooLittle;
    return room;
  }

  async function adopt(directory: string): Promise<void> {
    const { uid } = await lstat(directory);
    if (uid !== sandboxes.owner.uid) await sandboxes.adopt(directory);
  }

  return { owner: sandboxes.owner, use, close: async () => void (await Promise.all(leaving)) };
}

const smallFile = 16 * 1024 * 1024;

/** `ulimit` counts blocks of 512 bytes. Without the signal, a program that writes more survives and reports it. */
function boundsOn(bytes: number): string {
  return bytes === Infinity ? '' : `trap '' XFSZ; ulimit -f ${Math.floor(bytes / 512)}; `;
}

interface Inside {
  sockets: string;
  store: string;
  directory: string;
}

function failureOf(ended: Ended, limits: Limits): Error {
  const how = ended.reason ?? `status ${ended.exitStatus}`;
  return limitReached(ended.reason, limits) ?? new Error(`the sandbox of git ended before its work was done: ${how}`);
}
