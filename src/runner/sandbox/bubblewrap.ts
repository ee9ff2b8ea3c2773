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
import { announced, awaitScript, ready, reportDescriptor, scriptDescriptor } from './steps.ts';
import type { Command } from './types.ts';

/**
 * One sandbox, from before its run to after it.
 *
 * It is opened ahead of the run, and a shell waits in it for the script that leads through the steps. So when a run
 * comes, namespaces and mounts are ready, and the shell has dropped to the build's user and is in its control group.
 * The build's code never runs outside its limits, and the start costs the run almost no time. The run's own directories
 * are mounted on the sandbox's root (sandbox-root.ts). Its variables come with the script, through a pipe: they may be
 * secrets, and a command line would show them to every user of the machine.
 *
 * If the runner dies, bubblewrap and all processes of the run die too (`--die-with-parent`). A shell that still waits
 * finds its pipe closed, and has no script to run.
 */
export interface Bubblewrap {
  readonly pid: number;
  /** The output of the run. */
  readonly output: Readable;
  /** Settles when bubblewrap itself has ended, with its exit status. */
  readonly ended: Promise<number | null>;
  /** To be called when no process of the run is left: reads the rest of the output, and closes the pipes. */
  finish(): Promise<void>;
  release(script: string): void;
  /** The shell, which is the first process of the run's process namespace: when it ends, all others end. */
  init(): number | null;
  report(): string;
  /** The listener is called when the report has grown. */
  onNews(listener: () => void): void;
  complaint(): string;
  /** Settles when the shell waits, and bubblewrap and the shell need nothing of the sandbox's root any more. */
  settled(): Promise<void>;
  isWaiting(): boolean;
  /** Ends the sandbox with all its processes. */
  kill(): void;
}

/** The descriptors that bubblewrap has open. */
export function bubblewrapDescriptors(): Record<number, Descriptor> {
  return {
    0: { file: '/dev/null' },
    1: 'writes',
    2: 'writes',
    [scriptDescriptor]: 'reads',
    [reportDescriptor]: 'writes',
    [statusDescriptor]: 'writes',
    [seccompDescriptor]: { file: seccompFilter() },
  };
}

/**
 * `root` is the directory of the sandbox's root, and `common` are further arguments. Mounts in the root allow no
 * devices, except for the few that every sandbox has.
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
  // Kills the first process inside and not bubblewrap's own process outside: if that died while it opens the sandbox,
  // the processes it had started would wait for it for ever.
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
      // Not earlier: bubblewrap writes its status last, and a closed pipe would kill it.
      [status, complaint].forEach(({ close }) => close());
    },
    release: (script) => {
      if (!waiting) return; // it has ended, and its output says why
      waiting = false;
      closeScript = give(scriptFd, announced(script));
    },
    init,
    report: report.text,
    onNews: (listener) => {
      news = listener;
      listener();
    },
    complaint: () => complaint.text().replace(`${ready}\n`, '').trim(),
    settled: async () => {
      for (; ; await delay(1)) if (isOver || complaint.text().includes(`${ready}\n`)) return;
    },
    isWaiting: () => waiting,
    kill: () => void kill(),
  };
}

/** An empty pipe takes this much at once, on every Linux. */
const fits = 4096 * 15;

/**
 * Writes all of the text. The pipe is empty, so a short text fits without waiting. The pipe stays open until the
 * returned function is called: a shell that opens it late would otherwise wait for a writer.
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
  stream.on('error', () => {}); // a broken pipe has no more data
  return { text: () => text, finish, closed: once(stream, 'close') };
}

/** For a pipe with little data: it is read when its content is needed, without the cost of a stream. */
function lookAt(fd: number): { text: () => string; close: () => void } {
  const buffer = Buffer.allocUnsafe(4096);
  let text = '';
  let isOpen = true;
  const look = (): string => {
    if (!isOpen) return text;
    // A read that does not fill the buffer got everything; another one would only cost an error.
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
