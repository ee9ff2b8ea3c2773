import { spawn, type ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { withoutStrays } from '../../lib/descriptors.ts';
import type { Command, Identity } from './types.ts';

/** The runner's side of workbench.pl, which tells its story. */
export interface Workbench {
  readonly pid: number;
  /** Makes a directory that belongs to somebody. */
  directory(path: string, mode: number, owner: Identity): Promise<void>;
  /** Makes a file system whose mounts show wherever it was bound before. */
  stage(target: string, entries: { directories: readonly string[]; links: Record<string, string> }): Promise<void>;
  overlay(target: string, layers: OverlayLayers): Promise<void>;
  bind(source: string, target: string, mode: 'ro' | 'rw'): Promise<void>;
  clear(targets: readonly string[]): Promise<void>;
  /** Makes a named pipe that belongs to somebody. */
  fifo(path: string, owner: Identity): Promise<void>;
  /** Starts a process in the bench's namespaces. */
  start(start: Start): Promise<Started>;
  /** Removes trees that are small; rejects when there is more than a little in them. */
  removeSmall(paths: readonly string[]): Promise<void>;
  close(): Promise<void>;
}

export interface OverlayLayers {
  /** Bottom first. */
  lower: readonly string[];
  upper?: { directory: string; work: string };
}

export interface Start {
  as: Identity;
  /** Named pipes by the number of the descriptor; who reads and who writes is said from the process's side. */
  pipes: Readonly<Record<number, { reads?: string; writes?: string }>>;
  command: Command;
}

export interface Started {
  pid: number;
  /** Its exit status; null when a signal ended it, or nobody knows. */
  ended: Promise<number | null>;
}

/** The workbench's own directory in its namespace. */
export const BENCH = '/sys';
/** The folder of the slot, as the bench shows it. */
export const SLOT_ON_BENCH = `${BENCH}/slot`;

/** An option string has to fit into one page. */
const LONGEST_OPTIONS = 4000;

export interface WorkbenchOptions {
  root: boolean;
  ownNetwork: boolean;
  /** Files of control groups that whatever the bench starts enters first. */
  entrances: readonly string[];
}

export async function openWorkbench(options: WorkbenchOptions): Promise<Workbench> {
  const namespaces = ['--mount', '--propagation', 'slave'];
  if (!options.root) namespaces.push('--user', '--map-root-user');
  if (options.ownNetwork) namespaces.push('--net');
  const program = fileURLToPath(new URL('workbench.pl', import.meta.url));
  const [unshare, ...args] = withoutStrays(['unshare', ...namespaces, 'perl', program, ...options.entrances], 2);
  const child = spawn(unshare, args, {
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true, // a Ctrl-C in the runner's terminal is for the runner to handle
    env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' },
  });
  const answers = conversation(child);
  await answers.next('prepare a mount namespace');
  const { stdin, pid } = child;
  if (pid === undefined) throw new Error('the workbench has no process id');

  const ask = async (...fields: string[]): Promise<string> => {
    if (fields.some((field) => field.includes('\0')))
      throw new Error(`a path has a NUL byte in it: ${JSON.stringify(fields)}`);
    stdin.write(fields.join('\0') + '\0\n');
    return answers.next(fields.join(' '));
  };
  const tell = async (...fields: string[]): Promise<void> => void (await ask(...fields));
  return {
    pid,
    directory: (path, mode, { uid, gid }) => tell('directory', path, mode.toString(8), `${uid}`, `${gid}`),
    removeSmall: (paths) => tell('remove', ...paths),
    overlay: (target, layers) => tell('overlay', target, overlayOptions(layers, options.root)),
    stage: (target, { directories, links }) => {
      const linked = Object.entries(links).map(([path, to]) => `${path}\x01${to}`);
      return tell('stage', target, ...directories, ...linked);
    },
    bind: (source, target, mode) => tell('bind', source, target, mode),
    clear: (targets) => (targets.length > 0 ? tell('clear', ...targets) : Promise.resolve()),
    fifo: (path, { uid, gid }) => tell('fifo', path, `${uid}`, `${gid}`),
    start: async ({ as, pipes, command }) => {
      const connected = Object.entries(pipes).map(([descriptor, { reads, writes }]) => {
        const sign = reads === undefined ? '>' : writes === undefined ? '<' : '+';
        return `${descriptor}${sign}${reads ?? writes}`;
      });
      const pid = Number(await ask('start', `${as.uid}`, `${as.gid}`, connected.join('\x01'), ...command));
      return { pid, ended: answers.endOf(pid) };
    },
    close: async () => {
      stdin.end();
      await answers.ended;
    },
  };
}

function overlayOptions({ lower, upper }: OverlayLayers, root: boolean): string {
  const paths = [...lower, ...(upper ? [upper.directory, upper.work] : [])];
  const awkward = paths.find((path) => /[,:\\"]/.test(path));
  if (awkward !== undefined)
    throw new Error(`an overlay cannot be made of a path with a comma, colon, backslash or quote in it: ${awkward}`);
  const options = [`lowerdir=${lower.toReversed().join(':')}`];
  // Volatile: what is synced to a workspace that dies with its build need not reach the disk. Without it
  // every unmount would first write out everything that is pending on the whole file system.
  if (upper) options.push(`upperdir=${upper.directory}`, `workdir=${upper.work}`, 'volatile');
  if (!root) options.push('userxattr');
  const text = options.join(',');
  if (text.length > LONGEST_OPTIONS) throw new Error(`too many layers for one overlay: ${lower.length}`);
  return text;
}

interface Conversation {
  next(what: string): Promise<string>;
  endOf(pid: number): Promise<number | null>;
  ended: Promise<void>;
}

/** Answers come one per request, in order; when the process is gone, all that still wait are told so. */
function conversation(child: ChildProcess): Conversation {
  const waiting: { what: string; resolve: (answer: string) => void; reject: (error: Error) => void }[] = [];
  // The end of a process may be told before who asked for it has heard of its start.
  const ends = new Map<number, PromiseWithResolvers<number | null>>();
  const endOf = (pid: number): PromiseWithResolvers<number | null> => {
    const known = ends.get(pid) ?? Promise.withResolvers<number | null>();
    ends.set(pid, known);
    return known;
  };
  const ended = Promise.withResolvers<void>();
  let gone: Error | undefined;
  let complaint = '';
  child.stderr?.on('data', (chunk: Buffer) => (complaint = (complaint + chunk.toString()).slice(-2000)));
  child.stdin?.on('error', () => {}); // its end is reported below, with the reason
  const hear = (line: string): void => {
    const [word, first = '', second = ''] = line.split(' ', 3);
    if (word === 'end') return endOf(Number(first)).resolve(second === '-1' ? null : Number(second));
    const request = waiting.shift();
    if (word === 'ok') request?.resolve(first);
    else request?.reject(new Error(`could not ${request.what}: ${line.replace(/^no: /, '')}`));
  };
  let rest = '';
  child.stdout?.on('data', (chunk: Buffer) => {
    const lines = (rest + chunk.toString()).split('\n');
    rest = lines.pop() ?? '';
    lines.forEach(hear);
  });
  const end = (why: string): void => {
    gone ??= new Error(why);
    for (const { reject } of waiting.splice(0)) reject(gone);
    for (const { resolve } of ends.values()) resolve(null);
    ended.resolve();
  };
  child.on('error', (error) => end(`the workbench did not start: ${error.message}`));
  child.on('close', (status, signal) => end(`the workbench ended (${signal ?? status}): ${complaint.trim()}`));
  return {
    ended: ended.promise,
    next: (what) => {
      const { promise, resolve, reject } = Promise.withResolvers<string>();
      if (gone) reject(gone);
      else waiting.push({ what, resolve, reject });
      return promise;
    },
    endOf: async (pid) => {
      const known = endOf(pid);
      if (gone) known.resolve(null);
      const status = await known.promise;
      ends.delete(pid);
      return status;
    },
  };
}
