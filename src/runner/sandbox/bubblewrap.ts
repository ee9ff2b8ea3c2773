import { once } from 'node:events';
import { closeSync, constants, openSync, writeSync } from 'node:fs';
import { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { seccompDescriptor, seccompFilter, statusDescriptor } from './arguments.ts';
import { signalAll } from './descendants.ts';
import { graceMs } from './ending.ts';
import type { Descriptor, RunNamespaces } from './mount-helper.ts';
import { readNow, readPipe } from './pipe.ts';
import { announced, awaitScript, neverDescriptor, reportDescriptor, scriptDescriptor } from './steps.ts';
import type { Command } from './types.ts';

/**
 * One sandbox, from before its run to after it.
 *
 * It is opened ahead of the run, and a shell waits in it for the script that leads through the steps. So by the time a
 * run comes, namespaces and mounts are there, the shell has dropped to the build's user and is in its control group: no
 * moment exists in which the build's code runs outside its limits, and the start costs the run next to nothing. What
 * belongs to the run alone is mounted on its root (sandbox-root.ts). Its variables come with the script, over a pipe,
 * because there may be secrets among them, which a command line would show to every user of the machine.
 *
 * If the runner dies, bubblewrap and with it all processes of the run die too (`--die-with-parent`); a shell that
 * still waits finds its pipe closed, and no script to run.
 */
export interface Bubblewrap {
  readonly pid: number;
  /** What the run writes. */
  readonly output: Readable;
  /** Settles when bubblewrap itself is gone, with its exit status. */
  readonly ended: Promise<number | null>;
  /** To be called when no process of the run is left: what was said until then is all there, and the pipes are closed. */
  finish(): Promise<void>;
  release(script: string): void;
  /** The first process of the run's own process namespace: with it, all others end. */
  init(): number | null;
  report(): string;
  /** Calls whenever there is more to the report. */
  onNews(listener: () => void): void;
  complaint(): string;
  isWaiting(): boolean;
  /** Ends it with all that is in it. */
  kill(): void;
}

/** What it has open. */
export function bubblewrapDescriptors(): Record<number, Descriptor> {
  return {
    0: { file: '/dev/null' },
    1: 'writes',
    2: 'writes',
    [scriptDescriptor]: 'reads',
    [reportDescriptor]: 'writes',
    [statusDescriptor]: 'writes',
    [neverDescriptor]: 'waits for ever',
    [seccompDescriptor]: { file: seccompFilter() },
  };
}

/**
 * `root`: where the sandbox's root is put together. `common`: what else bubblewrap is told. Whatever is mounted in the root
 * forbids devices by itself, but for the few that every sandbox has.
 */
export function bubblewrapCommand(root: string, common: readonly string[]): Command {
  return ['bwrap', '--dev-bind', root, '/', ...common, '--', '/bin/sh', '-c', awaitScript];
}

export async function holdBubblewrap(namespaces: RunNamespaces): Promise<Bubblewrap> {
  const { pid, pipe, ended } = await namespaces.start();
  const opened: number[] = [];
  try {
    const open = (descriptor: number, flags: number): number => {
      const fd = openSync(pipe(descriptor), flags | constants.O_NONBLOCK);
      opened.push(fd);
      return fd;
    };
    const reading = [reportDescriptor, statusDescriptor, 2, 1].map((descriptor) =>
      open(descriptor, constants.O_RDONLY),
    );
    const writing = open(scriptDescriptor, constants.O_WRONLY);
    namespaces.opened();
    return heldBubblewrap(pid, ended, reading as Four, writing);
  } catch (error) {
    opened.forEach((fd) => closeSync(fd));
    throw error;
  }
}

type Four = [number, number, number, number];

function heldBubblewrap(pid: number, ended: Promise<number | null>, reading: Four, scriptFd: number): Bubblewrap {
  const [reportFd, statusFd, complaintFd, outputFd] = reading;
  let news: (() => void) | undefined;
  let waiting = true;
  const report = remember(reportFd, () => news?.());
  const [status, complaint] = [lookAt(statusFd), lookAt(complaintFd)];
  const output = readPipe(outputFd);
  let closeScript = (): void => closeSync(scriptFd);
  let isOver = false;
  const over = ended.finally(() => {
    isOver = true;
    waiting = false;
    closeScript();
  });
  const init = (): number | null => {
    const found = /"child-pid": (\d+)/.exec(status.text());
    return found ? Number(found[1]) : null;
  };
  // By its first process, and not by bubblewrap's own outside: were that to die while it opens the sandbox, what it has
  // made by then would wait for it for ever.
  const kill = async (): Promise<void> => {
    for (const deadline = performance.now() + graceMs; ; await delay(1)) {
      if (isOver) return;
      const first = init() ?? (performance.now() > deadline ? pid : null);
      if (first !== null) return signalAll([first], 'SIGKILL');
    }
  };
  return {
    pid,
    output: output.stream,
    ended: over,
    finish: async () => {
      output.finish();
      report.finish();
      await Promise.all([report.closed, over]);
      // Not before: bubblewrap's last act is to tell its status, and it would die of nobody's reading it.
      [status, complaint].forEach(({ close }) => close());
    },
    release: (script) => {
      if (!waiting) return; // it has ended, and says why
      waiting = false;
      closeScript = give(scriptFd, announced(script));
    },
    init,
    report: report.text,
    onNews: (listener) => {
      news = listener;
      listener();
    },
    complaint: () => complaint.text().trim(),
    isWaiting: () => waiting,
    kill: () => void kill(),
  };
}

/** What an empty pipe takes at once, on every Linux. */
const fits = 4096 * 15;

/**
 * Writes all of it. Nobody has written to the pipe before, so a little fits without waiting. It stays open until what is
 * returned is called: a shell that comes to it late would otherwise wait for somebody who writes.
 */
function give(fd: number, text: string): () => void {
  const bytes = Buffer.from(text);
  const written = writeSync(fd, bytes.subarray(0, fits));
  if (written === bytes.length) return () => closeSync(fd);
  const pipe = new Socket({ fd, readable: false, writable: true });
  pipe.on('error', () => {}); // a bubblewrap that died says why on its standard error
  pipe.write(bytes.subarray(written));
  return () => pipe.destroy();
}

const mostHeard = 64 * 1024;

function remember(fd: number, heard: () => void): { text: () => string; finish: () => void; closed: Promise<unknown> } {
  const { stream, finish } = readPipe(fd);
  let text = '';
  stream.on('data', (chunk: Buffer) => {
    if (text.length < mostHeard) text += chunk.toString();
    heard();
  });
  stream.on('error', () => {}); // a pipe that breaks has nothing more to tell
  return { text: () => text, finish, closed: once(stream, 'close') };
}

/** For a pipe in which little is said: it is read when somebody wants to know, without the cost of a stream. */
function lookAt(fd: number): { text: () => string; close: () => void } {
  const buffer = Buffer.allocUnsafe(4096);
  let text = '';
  let isOpen = true;
  const look = (): string => {
    if (!isOpen) return text;
    // What does not fill the buffer was all there is; to ask once more would cost an error.
    for (let length = buffer.length; length === buffer.length && text.length < mostHeard;) {
      length = readNow(fd, buffer);
      text += buffer.toString('utf8', 0, length);
    }
    return text;
  };
  return {
    text: look,
    close: () => {
      look();
      if (isOpen) closeSync(fd);
      isOpen = false;
    },
  };
}
