import { closeSync, constants, openSync } from 'node:fs';
import { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import {
  becoming,
  sandboxArguments,
  seccompDescriptor,
  seccompFilter,
  statusDescriptor,
  type SandboxUsers,
} from './arguments.ts';
import { signalAll } from './descendants.ts';
import { ignore } from './cgroup-files.ts';
import { graceMs } from './ending.ts';
import type { Descriptor, ProcessEnd, RunNamespaces } from './mount-helper.ts';
import { readNow, readPipe, writeNow, type Reading } from './pipe.ts';
import { openStepFiles, sandboxedStepFiles, type StepFiles } from './step-files.ts';
import { announced, awaitScript, ready, reportDescriptor, scriptDescriptor } from './steps.ts';
import type { Command } from './types.ts';

/**
 * One sandbox, from before its run to after it. A shell in it, as the build's user and in its control group, waits for
 * the run's script. So the build never runs outside its limits, and its start takes almost no time. Variables come with
 * the script, through a pipe: every user of the machine can read a command line.
 *
 * If the runner dies, all processes of the run die too (`--die-with-parent`). A waiting shell finds its pipe closed.
 */
export interface Bubblewrap {
  readonly pid: number;
  readonly output: Readable;
  /** Streams the later output on the pipe of the shell's errors. Call it only once. */
  aside(): Readable;
  sweepOutput(): void;
  readonly stepFiles: StepFiles;
  readonly ended: Promise<ProcessEnd>;
  /** Must be called when no process of the run is left: reads the rest of the output, and closes the pipes. */
  finish(): Promise<void>;
  release(script: string): void;
  tell(text: string): void;
  /** The shell's process ID. It is the first of its process namespace: when it ends, all others end. */
  init(): number | null;
  onReport(listener: (text: string) => void): void;
  complaint(): string;
  /** Settles when the shell waits, and neither it nor bubblewrap needs the sandbox's root. */
  settled(): Promise<void>;
  isWaiting(): boolean;
  kill(): void;
}

export function bubblewrapDescriptors(users: SandboxUsers): Record<number, Descriptor> {
  return {
    0: { file: '/dev/null' },
    1: 'writes',
    2: 'writes',
    [scriptDescriptor]: 'reads',
    [reportDescriptor]: 'writes',
    [statusDescriptor]: 'writes',
    [seccompDescriptor]: { file: seccompFilter(users) },
  };
}

/** Mounts in `root`, the sandbox's root directory, allow no devices except the few that every sandbox has. */
export function bubblewrapCommand(root: string, users: SandboxUsers): Command {
  const shell = [...becoming(users), '/bin/sh', '-c', awaitScript];
  return ['bwrap', '--dev-bind', root, '/', ...sandboxArguments(users), '--', ...shell];
}

export async function holdBubblewrap(namespaces: RunNamespaces, files: Promise<string[]>): Promise<Bubblewrap> {
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
    const stepFiles = openStepFiles(await files, sandboxedStepFiles);
    namespaces.opened();
    return heldBubblewrap(pid, ended, reading as Four, writing, stepFiles);
  } catch (error) {
    opened.forEach((fd) => closeSync(fd));
    throw error;
  }
}

type Four = [number, number, number, number];

function heldBubblewrap(
  pid: number,
  ended: Promise<ProcessEnd>,
  reading: Four,
  scriptFd: number,
  stepFiles: StepFiles,
): Bubblewrap {
  const [reportFd, statusFd, complaintFd, outputFd] = reading;
  let waiting = true;
  let hear: ((text: string) => void) | undefined;
  const report = readPipe(reportFd);
  report.stream.on('data', (chunk: Buffer) => hear?.(chunk.toString()));
  report.stream.on('error', () => {}); // a broken pipe sends no further data
  const reported = new Promise((resolve) => report.stream.on('close', resolve));
  const [status, complaint] = [lookAt(statusFd), lookAt(complaintFd)];
  const output = readPipe(outputFd);
  let aside: Reading | undefined;
  const script = writePipe(scriptFd);
  let isOver = false;
  const over = ended.finally(() => {
    isOver = true;
    waiting = false;
    script.close();
  });
  const init = (): number | null => {
    const found = /"child-pid": (\d+)/.exec(status.text());
    return found ? Number(found[1]) : null;
  };
  // Kills the first process inside. If bubblewrap's own process died while it opens the sandbox, its children would
  // wait for it forever.
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
    aside: () => (aside = complaint.readOn()).stream,
    sweepOutput() {
      output.sweep();
      aside?.sweep();
    },
    stepFiles,
    ended: over,
    finish: async () => {
      output.finish();
      aside?.finish();
      report.finish();
      await Promise.all([reported, over]);
      // Not earlier: bubblewrap writes its status last, and a closed pipe would kill it.
      [status, complaint].forEach(({ close }) => close());
    },
    release: (text) => {
      if (!waiting) return; // the shell has ended, and its output shows why
      waiting = false;
      script.write(announced(text));
    },
    tell: (text) => {
      try {
        if (!isOver) script.write(text);
      } catch (error) {
        ignore('EPIPE')(error); // the shell has just ended, and `ended` reports it
      }
    },
    init,
    onReport: (listener) => void (hear = listener),
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
 * A short text fits without waiting, because the pipe is empty unless a step has filled it. The pipe stays open until
 * `close`: without a writer, a shell that opens it late would wait.
 */
function writePipe(fd: number): { write: (text: string) => void; close: () => void } {
  let pipe: Socket | undefined;
  return {
    write(text) {
      const bytes = Buffer.from(text);
      const written = pipe ? 0 : writeNow(fd, bytes.subarray(0, fits));
      if (written === bytes.length) return;
      pipe ??= new Socket({ fd, readable: false, writable: true }).on('error', () => {}); // `ended` reports it
      pipe.write(bytes.subarray(written));
    },
    close: () => (pipe ? void pipe.destroy() : closeSync(fd)),
  };
}

const mostHeard = 64 * 1024;

function lookAt(fd: number): { text: () => string; readOn: () => Reading; close: () => void } {
  const buffer = Buffer.allocUnsafe(4096);
  let text = '';
  let isOpen = true;
  const look = (): string => {
    if (!isOpen) return text;
    // A read that does not fill the buffer got everything. Another read would only cost an error.
    for (let length = buffer.length; length === buffer.length && text.length < mostHeard;) {
      length = readNow(fd, buffer);
      text += buffer.toString('utf8', 0, length);
    }
    return text;
  };
  return {
    text: look,
    readOn() {
      look();
      isOpen = false; // the stream closes it
      return readPipe(fd);
    },
    close: () => {
      look();
      if (isOpen) closeSync(fd);
      isOpen = false;
    },
  };
}
