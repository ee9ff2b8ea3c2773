import { spawn, type ChildProcess } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { withoutStrays } from '../../lib/descriptors.ts';
import type { Command, Identity } from './types.ts';

/** The runner's side of mount-helper.pl, which tells its story. */
export interface MountHelper {
  /** Forks a helper for one run. */
  open(options: RunHelperOptions): Promise<RunHelper>;
  /** Removes trees that are small; rejects when there is more than a little in them. */
  removeSmall(paths: readonly string[]): Promise<void>;
  close(): Promise<void>;
}

export interface RunHelperOptions {
  ownNetwork: boolean;
  /** Files that belong on disk to `files` belong to `run` where they are bound `mapped`. */
  owners?: { files: number; run: number } | undefined;
  /** Files of control groups that whatever the helper starts enters first. */
  entrances: readonly string[];
}

/** Mounts and starts what one run needs, in namespaces of its own. */
export interface RunHelper {
  readonly pid: number;
  /** Makes a directory that belongs to somebody. */
  directory(path: string, mode: number, owner: Identity): Promise<void>;
  /** Makes a file system whose mounts show wherever it was bound before. */
  root(target: string, entries: { directories: readonly string[]; links: Record<string, string> }): Promise<void>;
  overlay(target: string, layers: OverlayLayers): Promise<void>;
  /** `mapped`: files of the build's user on disk belong to the user of this run. */
  bind(source: string, target: string, mode: 'ro' | 'rw', mapped?: 'mapped'): Promise<void>;
  /** Starts a process in the helper's namespaces. */
  start(start: Start): Promise<Started>;
  /** The pipes of what was started have been opened. */
  opened(): Promise<void>;
  /** Ends the helper with all that it started. */
  close(): Promise<void>;
}

export interface OverlayLayers {
  /** Bottom first. */
  lower: readonly string[];
  upper?: { directory: string; work: string };
}

/** What a process has open: a file that it reads, or a pipe, said from its side. */
export type Descriptor = { file: string } | 'reads' | 'writes' | 'waits for ever';

export interface Start {
  as: Identity;
  descriptors: Readonly<Record<number, Descriptor>>;
  command: Command;
}

export interface Started {
  pid: number;
  /** Paths under which the other ends of its pipes can be opened, by the number of its descriptor. */
  pipes: Map<number, string>;
  /** Its exit status; null when a signal ended it, or nobody knows. */
  ended: Promise<number | null>;
}

/** The helper's own directory in the namespaces of a run. */
export const HELPER_DIRECTORY = '/sys';

/** An option string has to fit into one page. */
const LONGEST_OPTIONS = 4000;

export async function openMountHelper({ root }: { root: boolean }): Promise<MountHelper> {
  const namespaces = ['--mount', '--propagation', 'slave', ...(root ? [] : ['--user', '--map-root-user'])];
  const program = fileURLToPath(new URL('mount-helper.pl', import.meta.url));
  const [unshare, ...args] = withoutStrays(['unshare', ...namespaces, 'perl', program], 2);
  const child = spawn(unshare, args, {
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true, // a Ctrl-C in the runner's terminal is for the runner to handle
    env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' },
  });
  const answers = readAnswers(child);
  const self = answers.from('-');
  await self.next('prepare a mount namespace');
  let helpers = 0;

  const ask = async (to: string, from: Conversation, ...fields: string[]): Promise<string> => {
    if (fields.some((field) => field.includes('\0')))
      throw new Error(`a path has a NUL byte in it: ${JSON.stringify(fields)}`);
    child.stdin.write([to, ...fields].join('\0') + '\0\n');
    return from.next(fields.join(' '));
  };

  const open = async ({ ownNetwork, owners, entrances }: RunHelperOptions): Promise<RunHelper> => {
    const name = `${++helpers}`;
    const conversation = answers.from(name);
    const namespaces = ownNetwork ? 'mount+net' : 'mount';
    child.stdin.write(
      ['-', 'open', name, namespaces, owners ? `${owners.files}:${owners.run}` : '', ...entrances].join('\0') + '\0\n',
    );
    const pid = Number(await conversation.next('prepare the namespaces of a run'));
    const tell = async (...fields: string[]): Promise<void> => void (await ask(name, conversation, ...fields));
    return {
      pid,
      directory: (path, mode, { uid, gid }) => tell('directory', path, mode.toString(8), `${uid}`, `${gid}`),
      overlay: (target, layers) => tell('overlay', target, overlayOptions(layers, root)),
      root: (target, { directories, links }) => {
        const linked = Object.entries(links).map(([path, to]) => `${path}\x01${to}`);
        return tell('root', target, ...directories, ...linked);
      },
      bind: (source, target, mode, mapped) => tell('bind', source, target, mode, mapped ?? ''),
      start: async ({ as, descriptors, command }) => {
        const opened = Object.entries(descriptors).map(([number, what]) => number + signOf(what));
        const started = await ask(
          name,
          conversation,
          'start',
          `${as.uid}`,
          `${as.gid}`,
          opened.join('\x01'),
          ...command,
        );
        const [process = '', ...ends] = started.split(' ');
        const pipes = ends.map((end) => end.split('=').map(Number) as [number, number]);
        return {
          pid: Number(process),
          pipes: new Map(pipes.map(([number, other]) => [number, `/proc/${pid}/fd/${other}`])),
          ended: conversation.endOf(Number(process)),
        };
      },
      opened: () => tell('opened'),
      close: async () => {
        child.stdin.write(`${name}\0close\0\n`);
        await conversation.gone;
      },
    };
  };
  return {
    open,
    removeSmall: async (paths) => void (await ask('-', self, 'remove', ...paths)),
    close: async () => {
      child.stdin.end();
      await self.gone;
    },
  };
}

function signOf(what: Descriptor): string {
  if (typeof what === 'object') return `<${what.file}`;
  return { reads: '<=', writes: '>=', 'waits for ever': '<-' }[what];
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
  gone: Promise<void>;
}

interface Answers {
  from(name: string): Conversation;
}

/** What one helper still has to answer. */
interface Awaited {
  waiting: { what: string; resolve: (answer: string) => void; reject: (error: Error) => void }[];
  /** The end of a process may be told before who asked for it has heard of its start. */
  ends: Map<number, PromiseWithResolvers<number | null>>;
  gone: PromiseWithResolvers<void>;
  why?: Error;
}

/** Answers come one per request, in order for each helper; when it is gone, all that still wait are told so. */
function readAnswers(child: ChildProcess): Answers {
  const all = new Map<string, Awaited>();
  let complaint = '';
  child.stderr?.on('data', (chunk: Buffer) => (complaint = (complaint + chunk.toString()).slice(-2000)));
  child.stdin?.on('error', () => {}); // its end is reported below, with the reason
  const endOf = ({ ends }: Awaited, pid: number): PromiseWithResolvers<number | null> => {
    const known = ends.get(pid) ?? Promise.withResolvers<number | null>();
    ends.set(pid, known);
    return known;
  };
  const end = (name: string, why: string): void => {
    const awaited = all.get(name);
    if (!awaited) return;
    all.delete(name);
    awaited.why = new Error(why);
    for (const { reject } of awaited.waiting.splice(0)) reject(awaited.why);
    for (const { resolve } of awaited.ends.values()) resolve(null);
    awaited.gone.resolve();
  };
  const hear = (line: string): void => {
    const [name = '', word, ...rest] = line.split(' ');
    const awaited = all.get(name);
    if (!awaited) return;
    if (word === 'gone') return end(name, `the mount helper of a run ended: ${complaint.trim()}`);
    if (word === 'end') return endOf(awaited, Number(rest[0])).resolve(rest[1] === '-1' ? null : Number(rest[1]));
    const request = awaited.waiting.shift();
    if (word === 'ok') request?.resolve(rest.join(' '));
    else request?.reject(new Error(`could not ${request.what}: ${rest.join(' ')}`));
  };
  let rest = '';
  child.stdout?.on('data', (chunk: Buffer) => {
    const lines = (rest + chunk.toString()).split('\n');
    rest = lines.pop() ?? '';
    lines.forEach(hear);
  });
  const endAll = (why: string): void => Array.from(all.keys()).forEach((name) => end(name, why));
  child.on('error', (error) => endAll(`the mount helper did not start: ${error.message}`));
  child.on('close', (status, signal) => endAll(`the mount helper ended (${signal ?? status}): ${complaint.trim()}`));
  return {
    from: (name) => {
      const awaited: Awaited = { waiting: [], ends: new Map(), gone: Promise.withResolvers<void>() };
      all.set(name, awaited);
      return {
        gone: awaited.gone.promise,
        next: (what) => {
          const { promise, resolve, reject } = Promise.withResolvers<string>();
          if (awaited.why) reject(awaited.why);
          else awaited.waiting.push({ what, resolve, reject });
          return promise;
        },
        endOf: async (pid) => {
          const known = endOf(awaited, pid);
          if (awaited.why) known.resolve(null);
          const status = await known.promise;
          awaited.ends.delete(pid);
          return status;
        },
      };
    },
  };
}
