import type { Socket } from 'node:net';
import type { Mask } from '../../shared/domain/masking.ts';
import { shellFrameReader } from '../../shared/domain/shell-frames.ts';
import { keepTail, type Tail } from '../../shared/lib/tail.ts';
import type { ProxyTrouble } from '../filtering-proxy.ts';
import type { Channel, OpenChannel } from './channel.ts';
import { git, type GitOutput } from './git.ts';

/*
 * The runner's side of session.pl, which runs programs in one sandbox in turn and sends frames like a shell's. Its
 * output is untrusted, because a repository may have taken git over. So frames are parsed strictly and their sizes
 * limited.
 */

export interface RunOptions {
  /** Must be short enough to fit into a pipe. */
  input?: string;
  /** In bytes of standard output. */
  maxOutput?: number;
  /** Gets the standard error of the program and of ssh, at its own pace. */
  onStderr?: ((chunk: Buffer) => Promise<void>) | undefined;
  /** After this long without output the session is ended with a `SilenceError`. */
  longestSilenceMs?: number;
}

export interface Session {
  readonly directory: string;
  readonly store: string;
  run: (command: readonly string[], options?: RunOptions) => Promise<GitOutput>;
  /** The words of the command on the bare repository at `directory`, for other programs. */
  readonly gitCommand: readonly string[];
  /** On the bare repository at `directory`. */
  git: (args: readonly string[], options?: RunOptions) => Promise<GitOutput>;
  /** On the work tree at `directory`. */
  gitInTree: (args: readonly string[], options?: RunOptions & { settings?: readonly string[] }) => Promise<GitOutput>;
}

export class SilenceError extends Error {
  override name = 'SilenceError';
}

const mostInput = 32 * 1024;
const usualOutput = 16 * 1024 * 1024;
const mostKept = 64 * 1024;
/** git needs one channel, and git-lfs a few. */
const mostChannels = 16;

interface Running {
  output: Buffer[];
  left: number;
  stderr: Tail;
  options: RunOptions;
  channels: Channel[];
  timeout: NodeJS.Timeout | undefined;
  /** Pieces that the log has not taken yet. While it is slow, the program does not count as silent. */
  untold: number;
  ended: PromiseWithResolvers<{ status: number; truncated: boolean }>;
}

/** The caller runs the sandbox: it passes the sandbox's output to `hear` and reports its end. */
export interface OpenSession extends Session {
  hear: (chunk: Buffer) => Promise<void>;
  /** The connection of session.pl, which takes the requests. */
  attach(socket: Socket): void;
  join(socket: Socket, open: OpenChannel): void;
  exit(status: number): void;
  /** The sandbox has ended; pending calls fail with this reason. */
  over(reason: unknown): void;
}

interface SessionOptions {
  directory: string;
  store: string;
  troubles: () => readonly ProxyTrouble[];
  /** Hides the session's secrets if a host sends them back. */
  mask: Mask;
  signal: AbortSignal;
  /** Ends the sandbox; pending calls fail with the reason. */
  end: (reason: Error) => void;
}

export function openSession({ directory, store, troubles, mask, signal, end }: SessionOptions): OpenSession {
  const attached = Promise.withResolvers<Socket>();
  const released = Promise.withResolvers<void>();
  signal.addEventListener('abort', () => released.resolve(), { once: true });
  const passOn = async (to: Running, chunk: Buffer): Promise<void> => {
    to.untold += 1;
    try {
      await Promise.race([to.options.onStderr?.(chunk), released.promise]);
    } finally {
      to.untold -= 1;
      to.timeout?.refresh();
    }
  };
  const hearError = async (now: Running, chunk: Buffer): Promise<void> => {
    if (chunk.length === 0) return;
    now.stderr.add(chunk);
    await passOn(now, chunk);
  };
  let gone: { reason: unknown } | undefined;
  let running: Running | undefined;

  const onFrame = async (letter: string, bytes: Buffer): Promise<void> => {
    const now = running;
    if (now === undefined) throw new Error('an unexpected frame');
    if (letter === 'o') {
      now.left -= bytes.length;
      if (now.left < 0) throw new Error('more output than allowed');
      now.output.push(Buffer.from(bytes));
    } else if (letter === 'e') {
      await hearError(now, mask.push(Buffer.from(bytes)));
    } else if (letter === 'x') {
      const [, status, truncated] = /^(\d{1,3}) ([01])$/.exec(bytes.toString('latin1')) ?? [];
      if (status === undefined) throw new Error('a malformed end');
      await hearError(now, mask.flush());
      running = undefined;
      now.ended.resolve({ status: Number(status), truncated: truncated === '1' });
    } else {
      throw new Error('a frame of unknown kind');
    }
    now.timeout?.refresh();
  };
  const read = shellFrameReader();

  const run = async (command: readonly string[], options: RunOptions = {}): Promise<GitOutput> => {
    if (gone !== undefined) throw gone.reason;
    if (running !== undefined) throw new Error('a session runs one program at a time');
    const { input = '', maxOutput = usualOutput, longestSilenceMs } = options;
    if (Buffer.byteLength(input) > mostInput) throw new Error('too much input for a session');
    if (command.some((field) => field.includes('\0'))) throw new Error('a command cannot hold NUL');
    const mine: Running = {
      output: [],
      left: maxOutput,
      stderr: keepTail(mostKept),
      options,
      channels: [],
      timeout: undefined,
      untold: 0,
      ended: Promise.withResolvers(),
    };
    running = mine;
    if (longestSilenceMs !== undefined) {
      mine.timeout = setTimeout(() => {
        if (mine.untold > 0) mine.timeout?.refresh();
        else end(new SilenceError(`no output for ${longestSilenceMs} ms`));
      }, longestSilenceMs);
    }
    try {
      ask([String(maxOutput), String(Buffer.byteLength(input)), ...command], input);
      const { status, truncated } = await mine.ended.promise;
      clearTimeout(mine.timeout);
      const ssh = Buffer.concat(await Promise.all(mine.channels.map((channel) => channel.end())));
      return {
        status,
        truncated,
        stdout: Buffer.concat(mine.output),
        stderr: mine.stderr.bytes(),
        ssh,
        troubles: troubles(),
      };
    } catch (error) {
      clearTimeout(mine.timeout);
      for (const channel of mine.channels) channel.kill();
      await Promise.all(mine.channels.map((channel) => channel.end()));
      throw error;
    }
  };

  const ask = (fields: readonly string[], input = ''): void => {
    const head = Buffer.from(fields.join('\0'));
    const size = Buffer.alloc(4);
    size.writeUInt32BE(head.length);
    void attached.promise.then((requests) => requests.write(Buffer.concat([size, head, Buffer.from(input)])));
  };
  const gitCommand = [...git, `--git-dir=${directory}`];
  return {
    directory,
    store,
    run,
    gitCommand,
    git: (args, options) => run([...gitCommand, ...args], options),
    gitInTree: (args, { settings = [], ...options } = {}) =>
      run([...git, ...settings, '-C', directory, '--git-dir=.git', '--work-tree=.', ...args], options),
    hear: async (chunk) => {
      if (gone !== undefined) return;
      try {
        for (const { letter, content } of read(chunk)) await onFrame(letter, Buffer.from(content));
      } catch (error) {
        end(error instanceof Error ? error : new Error(String(error)));
      }
    },
    attach: (socket) => {
      socket.on('error', () => {}).resume(); // `over` handles the end of a session
      attached.resolve(socket);
    },
    join: (socket, open) => {
      const mine = running;
      if (mine === undefined || mine.channels.length >= mostChannels) socket.destroy();
      else mine.channels.push(open(socket, (chunk) => passOn(mine, chunk)));
    },
    exit: (status) => ask([String(status)]),
    over: (reason) => {
      gone ??= { reason };
      running?.ended.reject(reason);
      for (const channel of running?.channels ?? []) channel.kill();
      running = undefined;
      void attached.promise.then((requests) => requests.destroy());
    },
  };
}
