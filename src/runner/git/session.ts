import { constants, openSync } from 'node:fs';
import { Socket } from 'node:net';
import { join } from 'node:path';
import { keepTail, type Tail } from '../../lib/tail.ts';
import type { Channel, OpenChannel, Service } from './channel.ts';
import { FrameError, frameReader } from './frames.ts';
import { git } from './git.ts';

/*
 * The runner's side of session.pl: programs that run in one sandbox, one after the other.
 *
 * What is heard from there is what strangers say: git reads what a repository holds, and may have been talked into
 * anything. So frames are taken strictly, and of everything there is a most.
 */

/** How a program ended in a session. */
export interface Said {
  /** As a shell has it: 128 and the signal's number, where a signal ended it. */
  status: number;
  stdout: Buffer;
  /** The last of it. */
  stderr: Buffer;
  /** The last of what ssh said, or whatever else stands on the way to the other side. */
  ssh: Buffer;
  /** There was more on standard output than was wanted, and the program was not let say it. */
  truncated: boolean;
}

export interface RunOptions {
  /** What it reads; a little, that fits into a pipe. */
  input?: string;
  /** How much of its standard output is wanted. */
  maxOutput?: number;
  /** Hears what it and ssh say on standard error, at its own pace. */
  onStderr?: ((chunk: Buffer) => Promise<void>) | undefined;
  /** The other side, for what goes over the network. */
  remote?: { open: OpenChannel; service: Service };
  /** Without a word for so long the session is ended, and `SilenceError` thrown. */
  longestSilenceMs?: number;
}

export interface Session {
  /** The directory that the session is for, as it is called inside. */
  readonly directory: string;
  run: (command: readonly string[], options?: RunOptions) => Promise<Said>;
  /** git on the directory, which is a bare repository. */
  git: (args: readonly string[], options?: RunOptions) => Promise<Said>;
}

export class SilenceError extends Error {
  override name = 'SilenceError';
}

const mostInput = 32 * 1024;
const usualOutput = 16 * 1024 * 1024;
const mostKept = 64 * 1024;

interface Running {
  output: Buffer[];
  left: number;
  said: Tail;
  options: RunOptions;
  channel: Channel | undefined;
  timeout: NodeJS.Timeout | undefined;
  /** How much the log has not taken yet. While it takes its time, nobody is silent. */
  untold: number;
  ended: PromiseWithResolvers<{ status: number; truncated: boolean }>;
}

/** A session whose sandbox the caller runs: it hands the sandbox's output to `hear`, and says when it is over. */
export interface OpenSession extends Session {
  hear: (chunk: Buffer) => Promise<void>;
  /** Asks session.pl to end with a status. */
  exit(status: number): void;
  /** The sandbox is gone, for this reason; who waits for an answer hears it. */
  over(reason: unknown): void;
}

interface SessionOptions {
  pipes: string;
  directory: string;
  /** From then on nobody waits for a log any more. */
  signal: AbortSignal;
  /** Ends the sandbox, for a reason that whoever waits shall hear. */
  end: (reason: Error) => void;
}

export function openSession({ pipes, directory, signal, end }: SessionOptions): OpenSession {
  // Open on both sides, so that it neither waits for the other one nor breaks when that ends.
  const fd = openSync(join(pipes, 'requests'), constants.O_RDWR | constants.O_NONBLOCK);
  const requests = new Socket({ fd, readable: false, writable: true });
  requests.on('error', () => {}); // a session that is gone is heard of below
  const released = Promise.withResolvers<void>();
  signal.addEventListener('abort', () => released.resolve(), { once: true });
  const tell = async (to: Running, chunk: Buffer): Promise<void> => {
    to.untold += 1;
    try {
      await Promise.race([to.options.onStderr?.(chunk), released.promise]);
    } finally {
      to.untold -= 1;
      to.timeout?.refresh();
    }
  };
  let gone: { reason: unknown } | undefined;
  let running: Running | undefined;

  const hearFrame = async (letter: string, bytes: Buffer): Promise<void> => {
    const now = running;
    if (now === undefined) throw new FrameError('a word that nobody asked for');
    if (letter === 'o') {
      now.left -= bytes.length;
      if (now.left < 0) throw new FrameError('more output than was wanted');
      now.output.push(Buffer.from(bytes));
    } else if (letter === 'e') {
      now.said.add(bytes);
      await tell(now, Buffer.from(bytes));
    } else if (letter === 'c') {
      now.channel?.joined();
    } else if (letter === 'x') {
      const [, status, truncated] = /^(\d{1,3}) ([01])$/.exec(bytes.toString('latin1')) ?? [];
      if (status === undefined) throw new FrameError('an end that is none');
      running = undefined;
      now.ended.resolve({ status: Number(status), truncated: truncated === '1' });
    } else {
      throw new FrameError('a frame of no known kind');
    }
    now.timeout?.refresh();
  };
  const read = frameReader(hearFrame);

  const run = async (command: readonly string[], options: RunOptions = {}): Promise<Said> => {
    if (gone !== undefined) throw gone.reason;
    if (running !== undefined) throw new Error('a session does one thing at a time');
    const { input = '', maxOutput = usualOutput, remote, longestSilenceMs } = options;
    if (Buffer.byteLength(input) > mostInput) throw new Error('too much input for a session');
    if (command.some((field) => field.includes('\0'))) throw new Error('a command cannot hold NUL');
    const mine: Running = {
      output: [],
      left: maxOutput,
      said: keepTail(mostKept),
      options,
      channel: undefined,
      timeout: undefined,
      untold: 0,
      ended: Promise.withResolvers(),
    };
    running = mine;
    if (longestSilenceMs !== undefined) {
      mine.timeout = setTimeout(() => {
        if (mine.untold > 0) mine.timeout?.refresh();
        else end(new SilenceError(`nothing was said for ${longestSilenceMs} ms`));
      }, longestSilenceMs);
    }
    try {
      if (remote !== undefined) {
        mine.channel = remote.open(pipes, remote.service, (chunk) => tell(mine, chunk));
      }
      ask([String(maxOutput), String(Buffer.byteLength(input)), ...command], input);
      const { status, truncated } = await mine.ended.promise;
      clearTimeout(mine.timeout);
      const ssh = (await mine.channel?.end()) ?? Buffer.alloc(0);
      return { status, truncated, stdout: Buffer.concat(mine.output), stderr: mine.said.bytes(), ssh };
    } catch (error) {
      clearTimeout(mine.timeout);
      mine.channel?.kill();
      await mine.channel?.end();
      throw error;
    }
  };

  const ask = (fields: readonly string[], input = ''): void => {
    const head = Buffer.from(fields.join('\0'));
    const size = Buffer.alloc(4);
    size.writeUInt32BE(head.length);
    requests.write(Buffer.concat([size, head, Buffer.from(input)]));
  };
  return {
    directory,
    run,
    git: (args, options) => run([...git, `--git-dir=${directory}`, ...args], options),
    hear: async (chunk) => {
      if (gone !== undefined) return;
      try {
        await read(chunk);
      } catch (error) {
        end(error instanceof Error ? error : new Error(String(error)));
      }
    },
    exit: (status) => ask([String(status)]),
    over: (reason) => {
      gone ??= { reason };
      running?.ended.reject(reason);
      running?.channel?.kill();
      running = undefined;
      requests.destroy();
    },
  };
}
