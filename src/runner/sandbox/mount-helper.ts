import { spawn, type ChildProcess } from 'node:child_process';
import { lstatSync } from 'node:fs';
import { join } from 'node:path';
import { withoutStrays } from '../../shared/lib/descriptors.ts';
import type { IdRanges, SharedRange } from './identity.ts';
import { isRoot } from './own-ids.ts';
import type { Command, Identity } from './types.ts';
import { sourceFile } from '../../shared/lib/source-files.ts';

/** The runner's side of mount-helper.pl, which has the details. */
export interface MountHelper {
  /** Makes the namespaces of one run. Requests may follow at once; if this fails, they all fail. */
  open(options: RunOptions): RunNamespaces;
  /** Must be called once, before the first `furnish`. */
  base(base: Base): Promise<void>;
  close(): Promise<void>;
}

export interface Base {
  etc: string;
  programs: readonly string[];
  /** In the root of each sandbox; outer ones first. */
  directories: readonly string[];
  links: Record<string, string>;
  /** Directories of each run's own; they appear at `at`. */
  own: Record<string, { mode: number; at?: string }>;
}

export interface RunOptions {
  ownNetwork: boolean;
  /** The path of a network to join; by default the run gets its own. */
  network?: string | undefined;
  /**
   * Files of the owner `files` on disk appear as owned by `run`, or by a range of users that is assigned to the run.
   * With a shared range no owners are translated.
   */
  ids?: { files: number; run: number } | IdRanges | SharedRange | undefined;
  /** Whether a run with its own range may make further user namespaces. */
  isNesting?: boolean;
  /** Files of control groups through which the run's process enters them first. */
  entrances: readonly string[];
  /** The process's user on this machine; with a range, its user inside. */
  as: Identity;
  descriptors: Readonly<Record<number, Descriptor>>;
  command: Command;
}

export interface RunNamespaces {
  /** Valid while the namespaces are open. */
  readonly paths: Promise<NamespacePaths>;
  readonly user: Promise<Identity>;
  directory(path: string, mode: number, owner: Identity): Promise<void>;
  /** `time` is in nanoseconds. */
  adjust(path: string, mode: number, time: bigint): Promise<void>;
  /** Moves these directories of the folder into `to`, and makes empty ones with their owners, modes and times. */
  renew(folder: string, to: string, names: readonly string[]): Promise<void>;
  /** Makes the sandbox's root and the run's directories. Returns paths that open its step files until `opened`. */
  furnish(folder: string, owner: Identity): Promise<string[]>;
  overlay(target: string, layers: OverlayLayers): Promise<void>;
  /**
   * Shows a directory's entries in the sandbox's root: instead of the machine's programs, or `again` over the same
   * entries.
   */
  image(directory: string, how?: 'again'): Promise<void>;
  /** No part of `source` may be a link: untrusted builds fill such directories. */
  bind(source: string, target: string, mode: 'ro' | 'rw', owners?: Owners, kind?: 'file'): Promise<void>;
  sys(target: string): Promise<void>;
  /** Bytes over all interfaces but the loopback of the run's own network. */
  traffic(): Promise<{ received: number; sent: number }>;
  start(): Promise<Started>;
  /** Must be called when the pipes of the started process are open. */
  opened(): void;
  /** Also removes the folder if there is little in it. */
  close(): Promise<void>;
}

/** Owners: `files` become the run's user, `image` the users in the image. By default they stay unchanged. */
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

/** A file that the process reads, or a pipe that it reads or writes. */
export type Descriptor = { file: string } | 'reads' | 'writes';

export interface ProcessEnd {
  /** Null if a signal ended it or the status is unknown. */
  status: number | null;
  /** What it and its children wrote to disks. Undefined if that is unknown. */
  bytesWritten?: number;
}

export interface Started {
  pid: number;
  /** The path that opens the other end of a pipe, by descriptor number. */
  pipe: (descriptor: number) => string;
  ended: Promise<ProcessEnd>;
}

export const helperDirectory = '/sys/run';
export const sandboxRoot = join(helperDirectory, 'root');
export const ownDirectories = join(helperDirectory, 'own');

const nanoseconds = 1_000_000_000n;

/** Mount options must fit into one page. */
const longestOptions = 4000;

export interface MountHelperOptions {
  /** Called when the helper ended without being closed. No sandbox can be opened from then on. */
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

  /** Sends all requests of one turn in one write. */
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
      renew: (folder, to, names) => {
        const timed = names.map((name) => {
          const { mtimeNs } = lstatSync(join(folder, name), { bigint: true });
          return [name, `${mtimeNs / nanoseconds}`, `${mtimeNs % nanoseconds}`].join('\x01');
        });
        return request('renew', folder, to, ...timed);
      },
      overlay: (target, layers) => request('overlay', target, overlayOptions(layers, root)),
      furnish: async (folder, { uid, gid }) =>
        (await ask(conversation, 'furnish', folder, `${uid}`, `${gid}`)).split(' ').map(descriptor),
      image: (directory, how) => request('image', directory, how ?? ''),
      bind: (source, target, mode, owners, kind) => request('bind', source, target, mode, owners ?? '', kind ?? ''),
      sys: (target) => request('sys', target),
      traffic: async () => {
        const [received = 0, sent = 0] = (await ask(conversation, 'traffic')).split(' ').map(Number);
        return { received, sent };
      },
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
  // Volatile, because otherwise each unmount would write all pending data of the file system.
  // Without an index, because stages.ts mounts directories of an overlay that still exists.
  if (upper) options.push(`upperdir=${upper.directory}`, `workdir=${upper.work}`, 'volatile', 'index=off');
  if (!root) options.push('userxattr');
  // The upper directory is later read separately, so it must not refer to lower ones by name.
  else if (upper) options.push('redirect_dir=nofollow', 'metacopy=off');
  const text = options.join(',');
  if (text.length > longestOptions) throw new Error(`too many layers for one overlay: ${lower.length}`);
  return text;
}

interface Conversation {
  readonly name: string;
  next(what: string): Promise<string>;
  endOf(pid: number): Promise<ProcessEnd>;
  gone: Promise<void>;
}

interface Answers {
  from(name: string): Conversation;
  ended: Promise<string>;
}

interface Awaited {
  waiting: { what: string; resolve: (answer: string) => void; reject: (error: Error) => void }[];
  /** A process may end before the response to its start was processed. */
  ends: Map<number, PromiseWithResolvers<ProcessEnd>>;
  gone: PromiseWithResolvers<void>;
  why?: Error;
}

/** Each request gets one response, in order. If a run or the helper has ended, all its pending requests fail. */
function readAnswers(child: ChildProcess): Answers {
  const all = new Map<string, Awaited>();
  let complaint = '';
  const ended = Promise.withResolvers<string>();
  let over: string | undefined;
  child.stderr?.on('data', (chunk: Buffer) => (complaint = (complaint + chunk.toString()).slice(-2000)));
  child.stdin?.on('error', () => {}); // its end is reported below, with the reason
  const endOf = ({ ends }: Awaited, pid: number): PromiseWithResolvers<ProcessEnd> => {
    const known = ends.get(pid) ?? Promise.withResolvers<ProcessEnd>();
    ends.set(pid, known);
    return known;
  };
  const end = (name: string, why: string): void => {
    const awaited = all.get(name);
    if (!awaited) return;
    all.delete(name);
    awaited.why = new Error(why);
    for (const { reject } of awaited.waiting.splice(0)) reject(awaited.why);
    for (const { resolve } of awaited.ends.values()) resolve({ status: null });
    awaited.gone.resolve();
  };
  const onLine = (line: string): void => {
    const [name = '', word, ...rest] = line.split(' ');
    const awaited = all.get(name);
    if (!awaited) return;
    if (word === 'gone') return end(name, `the namespaces of a run were let go: ${complaint.trim()}`);
    if (word === 'end') {
      const [pid, status, bytesWritten] = rest.map(Number);
      return endOf(awaited, pid ?? 0).resolve({
        status: status === -1 ? null : (status ?? null),
        ...(bytesWritten !== undefined && { bytesWritten }),
      });
    }
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
          if (awaited.why) known.resolve({ status: null });
          const how = await known.promise;
          awaited.ends.delete(pid);
          return how;
        },
      };
    },
  };
}
