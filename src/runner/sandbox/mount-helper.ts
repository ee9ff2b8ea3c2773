import { spawn, type ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import { withoutStrays } from '../../shared/lib/descriptors.ts';
import type { IdRanges, SharedRange } from './identity.ts';
import { isRoot } from './own-ids.ts';
import type { Command, Identity } from './types.ts';
import { sourceFile } from '../../shared/lib/source-files.ts';

/** The runner's side of mount-helper.pl, which has the details. */
export interface MountHelper {
  /** Makes the namespaces of one run. Requests can be sent at once; all of them fail if this fails. */
  open(options: RunOptions): RunNamespaces;
  /** To be called once, before the first `furnish`. */
  base(base: Base): Promise<void>;
  close(): Promise<void>;
}

/** The parts that all sandboxes share. */
export interface Base {
  /** Read-only: a folder that appears as /etc, and directories of the machine. */
  etc: string;
  programs: readonly string[];
  /** Directories and links in the root of each; outer ones first. */
  directories: readonly string[];
  links: Record<string, string>;
  /** Directories that each run has for itself, and where they appear. */
  own: Record<string, { mode: number; at?: string }>;
}

export interface RunOptions {
  ownNetwork: boolean;
  /** The path of a network that the run joins, in place of one of its own. */
  network?: string | undefined;
  /**
   * Files that belong to `files` on disk belong to `run`, or to a range of users of which the run gets one. With a shared range
   * no owners are translated.
   */
  ids?: { files: number; run: number } | IdRanges | SharedRange | undefined;
  /** Whether a run with a range of its own may make further user namespaces in its own. */
  isNesting?: boolean;
  /** Files of control groups through which the run's process enters them first. */
  entrances: readonly string[];
  /** The user of that process on this machine; with a range, who its command will be in it. */
  as: Identity;
  descriptors: Readonly<Record<number, Descriptor>>;
  command: Command;
}

/** Mounts and starts everything for one run, in its own namespaces. */
export interface RunNamespaces {
  /** Their paths while they are open. */
  readonly paths: Promise<NamespacePaths>;
  /** Who the run is on this machine. */
  readonly user: Promise<Identity>;
  /** Makes a directory with an owner. */
  directory(path: string, mode: number, owner: Identity): Promise<void>;
  /** Gives a directory a mode, and this time in nanoseconds. */
  adjust(path: string, mode: number, time: bigint): Promise<void>;
  /**
   * Makes the root of the sandbox, and in a folder the run's own directories. Answers the paths by which the files of its
   * steps can be opened (step-files.ts), until `opened`.
   */
  furnish(folder: string, owner: Identity): Promise<string[]>;
  overlay(target: string, layers: OverlayLayers): Promise<void>;
  /** Shows the entries of a directory in the root of the sandbox, instead of the machine's programs. */
  image(directory: string): Promise<void>;
  /**
   * `source` is a directory, or a file that covers another one, and no part of its path may be a link: strangers fill such
   * directories.
   */
  bind(source: string, target: string, mode: 'ro' | 'rw', owners?: Owners, kind?: 'file'): Promise<void>;
  /** Shows `/sys` at a place, read-only. */
  sys(target: string): Promise<void>;
  /** Starts the process of the run. */
  start(): Promise<Started>;
  /** Tells the helper that the pipes of the started process were opened. */
  opened(): void;
  /** Ends the process, releases the namespaces, and removes the folder if there is little in it. */
  close(): Promise<void>;
}

/**
 * How owners are translated: `files` are whoever's runs, those of an `image` belong to the users that it has. Without it they
 * stay as they are.
 */
export type Owners = 'files' | 'image';

export interface NamespacePaths {
  mount: string;
  network: string;
  user: string;
}

export interface OverlayLayers {
  /** Bottom first. */
  lower: readonly string[];
  upper?: { directory: string; work: string };
}

/** A descriptor of a process: a file that it reads, or a pipe, named from its side. */
export type Descriptor = { file: string } | 'reads' | 'writes';

export interface Started {
  pid: number;
  /** The path by which the other end of one of its pipes can be opened, by descriptor number. */
  pipe: (descriptor: number) => string;
  /** Its exit status; null when a signal ended it, or it is unknown. */
  ended: Promise<number | null>;
}

/** The directory in the run's namespaces where its root and its own directories are mounted. */
export const helperDirectory = '/sys/run';
export const sandboxRoot = join(helperDirectory, 'root');
export const ownDirectories = join(helperDirectory, 'own');

/** So many are a second. */
const nanoseconds = 1_000_000_000n;

/** An option string must fit into one page. */
const longestOptions = 4000;

export interface MountHelperOptions {
  /** The helper ended without being closed: no sandbox can be opened any more. */
  onLost?: ((error: Error) => void) | undefined;
}

export async function openMountHelper({ onLost }: MountHelperOptions): Promise<MountHelper> {
  const root = isRoot();
  const asUser = process.getuid?.() === 0 ? [] : ['--user', '--map-root-user'];
  const namespaces = ['--mount', '--propagation', 'slave', ...asUser];
  const program = sourceFile('runner/sandbox/mount-helper.pl');
  const [unshare, ...args] = withoutStrays(['unshare', ...namespaces, 'perl', program, process.arch], 2);
  const child = spawn(unshare, args, {
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true, // the runner handles a Ctrl-C in its terminal
    env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' },
  });
  const answers = readAnswers(child);
  let isClosing = false;
  const self = answers.from('-');
  const pid = await self.next('prepare a mount namespace');
  void answers.ended.then((why) => isClosing || onLost?.(new Error(why)));
  const descriptor = (number: string | undefined): string => `/proc/${pid}/fd/${number}`;
  let runs = 0;

  /** Requests of one turn are sent in one write. */
  const send = (...fields: string[]): void => {
    if (fields.some((field) => field.includes('\0')))
      throw new Error(`a path has a NUL byte in it: ${JSON.stringify(fields)}`);
    if (child.stdin.writableCorked === 0) {
      child.stdin.cork();
      process.nextTick(() => child.stdin.uncork());
    }
    child.stdin.write(fields.join('\0') + '\0\n');
  };
  const ask = async (from: Conversation, ...fields: string[]): Promise<string> => {
    send(from.name, ...fields);
    return from.next(fields.join(' '));
  };

  const open = ({
    ownNetwork,
    network,
    ids,
    isNesting,
    entrances,
    as,
    descriptors,
    command,
  }: RunOptions): RunNamespaces => {
    const conversation = answers.from(`${++runs}`);
    const request = async (...fields: string[]): Promise<void> => void (await ask(conversation, ...fields));
    send(
      conversation.name,
      'open',
      network !== undefined ? `mount+net=${network}` : ownNetwork ? 'mount+net' : 'mount',
      ids ? `${wordOf(ids)}${isNesting ? '+nesting' : ''}` : '',
      `${as.uid}`,
      `${as.gid}`,
      // The helper has nothing mounted below /sys, so it uses the runner's view.
      entrances.map((file) => `/proc/${process.pid}/root${file}`).join('\x01'),
      Object.entries(descriptors)
        .map(([number, what]) => number + signOf(what))
        .join('\x01'),
      ...command,
    );
    const answer = conversation.next('prepare the namespaces of a run').then((words) => {
      const [process = '', ...pairs] = words.split(' ');
      return { process: Number(process), kept: new Map(pairs.map((pair) => pair.split('=') as [string, string])) };
    });
    const paths = answer.then(({ kept }) => ({
      mount: descriptor(kept.get('mount')),
      network: descriptor(kept.get('net')),
      user: `/proc/${pid}/ns/user`,
    }));
    const user = answer.then(({ kept }) => ({ uid: Number(kept.get('uid')), gid: Number(kept.get('gid')) }));
    for (const known of [paths, user]) known.catch(() => {}); // the callers of the requests below get the error
    return {
      paths,
      user,
      directory: (path, mode, { uid, gid }) => request('directory', path, mode.toString(8), `${uid}`, `${gid}`),
      adjust: (path, mode, time) =>
        request('adjust', path, mode.toString(8), `${time / nanoseconds}`, `${time % nanoseconds}`),
      overlay: (target, layers) => request('overlay', target, overlayOptions(layers, root)),
      furnish: async (folder, { uid, gid }) =>
        (await ask(conversation, 'furnish', folder, `${uid}`, `${gid}`)).split(' ').map(descriptor),
      image: (directory) => request('image', directory),
      bind: (source, target, mode, owners, kind) => request('bind', source, target, mode, owners ?? '', kind ?? ''),
      sys: (target) => request('sys', target),
      start: async () => {
        const started = request('start');
        started.catch(() => {}); // thrown below, after an earlier error
        const { process, kept } = await answer;
        const ended = conversation.endOf(process);
        await started;
        return { pid: process, pipe: (number) => descriptor(kept.get(`${number}`)), ended };
      },
      opened: () => send(conversation.name, 'opened'),
      close: async () => {
        send(conversation.name, 'close');
        await conversation.gone;
      },
    };
  };
  return {
    open,
    base: async ({ etc, programs, directories, links, own }) => {
      const owned = Object.entries(own).map(([name, { mode, at = '' }]) => [name, mode.toString(8), at]);
      const lists = [programs, directories, Object.entries(links).flat(), owned.flat()];
      await ask(self, 'base', etc, ...lists.map((list) => list.join('\x01')));
    },
    close: async () => {
      isClosing = true;
      child.stdin.end();
      await self.gone;
    },
  };
}

function wordOf(ids: NonNullable<RunOptions['ids']>): string {
  if ('shared' in ids) return `${ids.shared}`;
  return `${ids.files}:${'run' in ids ? ids.run : `${ids.first}+${ids.count}`}`;
}

function signOf(what: Descriptor): string {
  if (typeof what === 'object') return `<${what.file}`;
  return { reads: '<=', writes: '>=' }[what];
}

function overlayOptions({ lower, upper }: OverlayLayers, root: boolean): string {
  const paths = [...lower, ...(upper ? [upper.directory, upper.work] : [])];
  const awkward = paths.find((path) => /[,:\\"]/.test(path));
  if (awkward !== undefined)
    throw new Error(`an overlay cannot be made of a path with a comma, colon, backslash or quote in it: ${awkward}`);
  const options = [`lowerdir=${lower.toReversed().join(':')}`];
  // Volatile: a workspace is removed with its build, so synced data need not reach the disk. Without it every unmount
  // would first write out all pending data of the whole file system.
  if (upper) options.push(`upperdir=${upper.directory}`, `workdir=${upper.work}`, 'volatile');
  if (!root) options.push('userxattr');
  // An upper directory is looked at by itself later, so it may not refer to those below by their names.
  else if (upper) options.push('redirect_dir=nofollow', 'metacopy=off');
  const text = options.join(',');
  if (text.length > longestOptions) throw new Error(`too many layers for one overlay: ${lower.length}`);
  return text;
}

interface Conversation {
  readonly name: string;
  next(what: string): Promise<string>;
  endOf(pid: number): Promise<number | null>;
  gone: Promise<void>;
}

interface Answers {
  from(name: string): Conversation;
  /** Why the helper ended. */
  ended: Promise<string>;
}

/** The unanswered requests of one run. */
interface Awaited {
  waiting: { what: string; resolve: (answer: string) => void; reject: (error: Error) => void }[];
  /** The end of a process may be reported before the answer about its start was processed. */
  ends: Map<number, PromiseWithResolvers<number | null>>;
  gone: PromiseWithResolvers<void>;
  why?: Error;
}

/** There is one answer per request, in order; when a run or the helper has ended, all waiting requests fail. */
function readAnswers(child: ChildProcess): Answers {
  const all = new Map<string, Awaited>();
  let complaint = '';
  const ended = Promise.withResolvers<string>();
  /** Nothing that is asked after the end will be answered. */
  let over: string | undefined;
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
  const onLine = (line: string): void => {
    const [name = '', word, ...rest] = line.split(' ');
    const awaited = all.get(name);
    if (!awaited) return;
    if (word === 'gone') return end(name, `the namespaces of a run were let go: ${complaint.trim()}`);
    if (word === 'end') return endOf(awaited, Number(rest[0])).resolve(rest[1] === '-1' ? null : Number(rest[1]));
    const request = awaited.waiting.shift();
    if (word === 'ok') request?.resolve(rest.join(' '));
    else request?.reject(new Error(`could not ${request.what}: ${rest.join(' ')}`));
  };
  let rest = '';
  child.stdout?.on('data', (chunk: Buffer) => {
    const lines = (rest + chunk.toString()).split('\n');
    rest = lines.pop() ?? '';
    lines.forEach(onLine);
  });
  const endAll = (why: string): void => {
    over ??= why;
    ended.resolve(why);
    Array.from(all.keys()).forEach((name) => end(name, why));
  };
  child.on('error', (error) => endAll(`the mount helper did not start: ${error.message}`));
  child.on('close', (status, signal) => endAll(`the mount helper ended (${signal ?? status}): ${complaint.trim()}`));
  return {
    ended: ended.promise,
    from: (name) => {
      const awaited: Awaited = { waiting: [], ends: new Map(), gone: Promise.withResolvers<void>() };
      all.set(name, awaited);
      if (over !== undefined) end(name, over);
      return {
        name,
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
