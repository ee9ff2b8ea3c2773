import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync } from 'node:fs';
import type { Readable, Writable } from 'node:stream';
import { FDS } from './arguments.ts';
import { openPipe } from './pipe.ts';
import { REPORT_FD } from './steps.ts';
import { PLACES, type Command, type Identity } from './types.ts';

/**
 * One bubblewrap process, from before its run to after it.
 *
 * It is started ahead of the run and waits, because it reads its arguments from a pipe to which nothing has
 * been written yet. So by the time a run comes, the process is loaded, has dropped to the build's user, and is
 * in its control group: no moment exists in which the build's code runs outside its limits, and the start
 * costs the run nothing. Arguments come over the pipe also because they hold the environment, and with it
 * secrets, which a command line would show to every user of the machine.
 *
 * If the runner dies, bubblewrap and with it all processes of the run die too (`--die-with-parent`); one that
 * still waits finds its pipe closed, and no script to run.
 */
export interface Bubblewrap {
  readonly pid: number;
  /** What the run writes. It ends when every process that could write is gone. */
  readonly output: AsyncIterable<Buffer>;
  /** Settles when bubblewrap itself is gone, with its exit status. */
  readonly ended: Promise<number | null>;
  /** Settles when also the descriptors it shared with the run are closed: what was said is all there. */
  readonly closed: Promise<unknown>;
  release(args: readonly string[], script: string): void;
  /** The first process of the run's own process namespace: with it, all others end. */
  init(): number | null;
  report(): string;
  /** Calls whenever there is more to the report, or more is known. */
  onNews(listener: () => void): void;
  complaint(): string;
  isWaiting(): boolean;
  kill(): void;
}

export function holdBubblewrap(options: { enter: Command; fifo: string; owner: Identity }): Bubblewrap {
  const { output, writing } = openPipe(options.fifo, options.owner);
  const [program, ...args]: Command = [
    ...options.enter,
    'bwrap',
    '--args',
    `${FDS.arguments}`,
    '--',
    '/bin/sh',
    PLACES.steps,
  ];
  const child = spawn(program, args, {
    stdio: ['ignore', writing, 'pipe', 'pipe', 'pipe', 'pipe', 'pipe'],
    env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' },
    cwd: '/',
    detached: true, // a Ctrl-C in the runner's terminal is for the runner to handle
  });
  closeSync(writing);
  const { pid } = child;
  const streams = child.stdio as unknown as (Readable & Writable)[];
  const channel = (fd: number): Readable & Writable => streams[fd] as Readable & Writable;
  for (const fd of [FDS.arguments, FDS.steps]) channel(fd).on('error', () => {}); // a bubblewrap that died says why on its standard error
  const [complaint, report, status] = [channel(2), channel(REPORT_FD), channel(FDS.status)].map(remember) as [
    Text,
    Text,
    Text,
  ];
  for (const fd of [REPORT_FD, FDS.status]) channel(fd).on('data', () => news?.());
  let news: (() => void) | undefined;
  let failure = '';
  let waiting = true;
  child.on('error', (error) => (failure = error.message));
  const ended = pid === undefined ? Promise.resolve(null) : once(child, 'exit').then(([code]) => code as number | null);
  const closed = pid === undefined ? Promise.resolve() : once(child, 'close');
  void ended.then(() => (waiting = false));
  return {
    pid: pid ?? 0,
    output,
    ended,
    closed,
    release: (all, script) => {
      waiting = false;
      channel(FDS.arguments).end(all.map((argument) => `${argument}\0`).join(''));
      channel(FDS.steps).end(script);
    },
    init: () => {
      const found = /"child-pid": (\d+)/.exec(status());
      return found ? Number(found[1]) : null;
    },
    report,
    onNews: (listener) => {
      news = listener;
      listener();
    },
    complaint: () => failure || complaint().trim(),
    isWaiting: () => waiting,
    kill: () => void child.kill('SIGKILL'),
  };
}

type Text = () => string;

function remember(stream: Readable): Text {
  const most = 64 * 1024;
  let text = '';
  stream.on('data', (chunk: Buffer) => (text += text.length < most ? chunk.toString() : ''));
  stream.on('error', () => {}); // a pipe that breaks has nothing more to tell
  return () => text;
}
