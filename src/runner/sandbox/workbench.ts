import { spawn, type ChildProcess } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Identity } from './types.ts';

/** The runner's side of workbench.pl, which tells its story. */
export interface Workbench {
  readonly pid: number;
  /** Makes a directory that belongs to somebody. */
  directory(path: string, mode: number, owner: Identity): Promise<void>;
  overlay(target: string, layers: OverlayLayers): Promise<void>;
  bind(source: string, target: string): Promise<void>;
  clear(targets: readonly string[]): Promise<void>;
  fifo(path: string): Promise<void>;
  /** Removes trees that are small; rejects when there is more than a little in them. */
  removeSmall(paths: readonly string[]): Promise<void>;
  close(): Promise<void>;
}

export interface OverlayLayers {
  /** Bottom first. */
  lower: readonly string[];
  upper?: { directory: string; work: string };
}

/** The workbench's own directory in its namespace. */
export const BENCH = '/sys';
/** The folder of the slot, as the bench shows it. */
export const SLOT_ON_BENCH = `${BENCH}/slot`;

/** An option string has to fit into one page. */
const LONGEST_OPTIONS = 4000;

export async function openWorkbench(options: { root: boolean; ownNetwork: boolean }): Promise<Workbench> {
  const namespaces = ['--mount', '--propagation', 'slave'];
  if (!options.root) namespaces.push('--user', '--map-root-user');
  if (options.ownNetwork) namespaces.push('--net');
  const program = fileURLToPath(new URL('workbench.pl', import.meta.url));
  const child = spawn('unshare', [...namespaces, 'perl', program], {
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true, // a Ctrl-C in the runner's terminal is for the runner to handle
    env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' },
  });
  const answers = conversation(child);
  await answers.next('prepare a mount namespace');
  const { stdin, pid } = child;
  if (pid === undefined) throw new Error('the workbench has no process id');

  const ask = (...fields: string[]): Promise<void> => {
    if (fields.some((field) => /[\n\0]/.test(field)))
      throw new Error(`a path has a line break in it: ${JSON.stringify(fields)}`);
    stdin.write(fields.join('\0') + '\n');
    return answers.next(fields.join(' '));
  };
  return {
    pid,
    directory: (path, mode, { uid, gid }) => ask('directory', path, mode.toString(8), `${uid}`, `${gid}`),
    removeSmall: (paths) => ask('remove', ...paths),
    overlay: (target, layers) => ask('overlay', target, overlayOptions(layers, options.root)),
    bind: (source, target) => ask('bind', source, target),
    clear: (targets) => (targets.length > 0 ? ask('clear', ...targets) : Promise.resolve()),
    fifo: (path) => ask('fifo', path),
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

/** Answers come one per request, in order; when the process is gone, all that still wait are told so. */
function conversation(child: ChildProcess): { next: (what: string) => Promise<void>; ended: Promise<void> } {
  const waiting: { what: string; resolve: () => void; reject: (error: Error) => void }[] = [];
  const ended = Promise.withResolvers<void>();
  let gone: Error | undefined;
  let complaint = '';
  child.stderr?.on('data', (chunk: Buffer) => (complaint = (complaint + chunk.toString()).slice(-2000)));
  child.stdin?.on('error', () => {}); // its end is reported below, with the reason
  if (child.stdout) {
    createInterface({ input: child.stdout }).on('line', (line) => {
      const request = waiting.shift();
      if (line === 'ok') request?.resolve();
      else request?.reject(new Error(`could not ${request.what}: ${line.replace(/^no: /, '')}`));
    });
  }
  const end = (why: string): void => {
    gone ??= new Error(why);
    for (const { reject } of waiting.splice(0)) reject(gone);
    ended.resolve();
  };
  child.on('error', (error) => end(`the workbench did not start: ${error.message}`));
  child.on('close', (status, signal) => end(`the workbench ended (${signal ?? status}): ${complaint.trim()}`));
  const next = (what: string): Promise<void> => {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    if (gone) reject(gone);
    else waiting.push({ what, resolve, reject });
    return promise;
  };
  return { next, ended: ended.promise };
}
