import { spawn, type ChildProcess } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { runnerEnvironment, type Config } from '../../shared/config.ts';
import { withoutStrays } from '../../shared/lib/descriptors.ts';
import { mainProgram } from '../../shared/lib/source-files.ts';
import { socketPath } from '../../shared/lib/sockets.ts';
import { isAboutIsolation } from '../../shared/domain/isolation.ts';
import { version } from '../../shared/protocol/index.ts';
import { complaintMark } from './call.ts';

export interface LocalRunnerPaths {
  folder: string;
  /** The socket of the server for this runner. */
  serverSocket: string;
  /** The socket by which the server sees that the runner is alive. */
  alive: string;
  /** The runner's own log: it may outlive the server's terminal. */
  log: string;
  /** What the running runner was started with, as a digest. */
  startedAs: string;
}

export function localRunnerPaths({ data_dir: dataDir }: Config): LocalRunnerPaths {
  return {
    folder: join(dataDir, 'runner'),
    serverSocket: socketPath(dataDir, 'server.sock'),
    alive: socketPath(dataDir, 'runner.sock'),
    log: join(dataDir, 'runner.log'),
    startedAs: join(dataDir, 'runner', 'started-as'),
  };
}

export interface LocalRunner {
  /** Tries at once to start it, where it waits to try again. */
  look(): void;
  stop(): Promise<void>;
  /** Stops watching it. It continues its jobs, and the next server finds it. */
  leave(): Promise<void>;
}

export interface Watcher {
  /** There is no runner: the jobs of the last one are lost. */
  onGone: () => void;
  /** The runner does not start, for this reason. It is told once, until the reason is another one. */
  onTrouble: (error: Error) => void;
  /** It runs again after such trouble. */
  onMended: () => void;
  /** Somebody asked to look again, and the reason is still the same. */
  onSame: (error: Error) => void;
  /**
   * A runner that an earlier server started has another version, or other settings. It is stopped when this resolves.
   */
  onOther: (signal: AbortSignal) => Promise<void>;
}

/**
 * The runner that comes with a server. It is a separate process that outlives a server that dies, and the next server
 * finds it by its socket. If it was started in another way than the next server would start it, it is replaced when it
 * has no jobs. Only a server that is stopped on purpose stops it. A runner that exits by itself is replaced.
 */
export function keepLocalRunner(config: Config, watcher: Watcher): LocalRunner {
  const { onGone, onOther } = watcher;
  const paths = localRunnerPaths(config);
  const stopping = new AbortController();
  const { signal } = stopping;
  /**
   * Runners that were started here and are still running: on stop they get a signal, even if their socket is not open
   * yet.
   */
  const started = new Set<ChildProcess>();

  let asked = new AbortController();
  let trouble: string | undefined;
  const note = (error: Error | undefined, isAsked: boolean): void => {
    if (error && error.message !== trouble) watcher.onTrouble(error);
    else if (error && isAsked) watcher.onSame(error);
    else if (!error && trouble !== undefined) watcher.onMended();
    trouble = error?.message;
  };

  const keep = async (): Promise<void> => {
    for (let wait = 100; !signal.aborted; wait = Math.min(wait * 2, 30_000)) {
      const isAsked = asked.signal.aborted;
      asked = new AbortController();
      try {
        let link = await knock(paths.alive);
        if (link && !isAsStarted(config, paths)) await replace(link);
        if (!link && !signal.aborted) {
          onGone(); // also covers a runner that died together with an earlier server
          link = await reach(start(config, paths, started), paths, signal);
        }
        if (link) {
          note(undefined, isAsked);
          await untilGone(link, signal);
        }
        wait = 100;
      } catch (error) {
        if (signal.aborted) return;
        note(error as Error, isAsked);
        // A machine seldom learns to isolate builds by itself.
        if (isAboutIsolation((error as Error).message)) wait = lookAgainMs;
      }
      await pause(wait, undefined, { signal: AbortSignal.any([signal, asked.signal]) }).catch(() => {});
      wait = Math.min(wait, 30_000);
    }
  };
  const replace = async (link: Socket): Promise<void> => {
    const gone = new AbortController();
    link.once('close', () => gone.abort()).resume();
    await onOther(AbortSignal.any([signal, gone.signal]));
    if (!signal.aborted) askToStop(link);
  };
  const keeping = keep();
  return {
    look: () => asked.abort(),
    async leave() {
      stopping.abort(leaving);
      await keeping;
    },
    async stop() {
      stopping.abort();
      for (const child of started) child.kill('SIGTERM');
      await keeping;
      for (const child of started) child.ref();
      await Promise.all(Array.from(started, (child) => once(child, 'exit')));
    },
  };
}

/** How long it waits to try again on a machine that cannot isolate builds, where nobody asks for it. */
const lookAgainMs = 180_000;

const leaving = new Error('the runner goes on without a server');

function askToStop(link: Socket): void {
  if (!link.destroyed) link.write('stop\n');
}

/** Waits while the runner is alive, and tells it to stop on the signal, also if the signal came earlier. */
async function untilGone(link: Socket, signal: AbortSignal): Promise<void> {
  const stop = (): void => void (signal.reason === leaving ? link.destroy() : askToStop(link));
  if (signal.aborted) stop();
  signal.addEventListener('abort', stop);
  const { promise, resolve } = Promise.withResolvers<void>();
  if (link.closed) resolve();
  link.once('close', resolve).resume(); // an error, which comes before, needs no message
  await promise;
  signal.removeEventListener('abort', stop);
}

/**
 * A runner's objects are short-lived: they fit into a small heap that is collected often. Node would let it grow to
 * many times the size first. bin/headrace sets the same for runners that are started by hand.
 */
const runnerMemory = '--max-semi-space-size=1';

function start(config: Config, paths: LocalRunnerPaths, started: Set<ChildProcess>): ChildProcess {
  // Done once here, so that the runner need not do it before every build.
  const flags = ['--local', '--data-dir', config.data_dir, '--started-as', startedAs(config)];
  const [program, ...args] = withoutStrays(
    [process.execPath, ...process.execArgv, runnerMemory, mainProgram, 'runner', ...flags],
    2,
  );
  const output = openSync(paths.log, 'w', 0o600);
  // Its own session: keys typed at the server's terminal, and the server's exit, do not reach it.
  const stdio = ['ignore' as const, output, output];
  const child = spawn(program, args, { detached: true, stdio, env: environmentOf(config) });
  started.add(child);
  for (const end of ['exit', 'error']) child.once(end, () => started.delete(child));
  child.unref();
  closeSync(output);
  return child;
}

/** Waits until the runner's socket is open; undefined when it was told to stop meanwhile. */
async function reach(child: ChildProcess, paths: LocalRunnerPaths, signal: AbortSignal): Promise<Socket | undefined> {
  const failed = Promise.withResolvers<never>();
  child.once('error', failed.reject);
  failed.promise.catch(() => {});
  while (!signal.aborted) {
    const socket = await knock(paths.alive);
    if (socket) return socket;
    if (child.exitCode !== null || child.signalCode !== null) {
      const why = lastWords(readFileSync(paths.log, 'utf8'));
      throw new Error(why || `the process exited by ${child.signalCode ?? child.exitCode} without any output`);
    }
    await Promise.race([pause(30), failed.promise]);
  }
  return undefined;
}

/** Why it ended: what a command says at its end, and not the lines of its log before. */
function lastWords(output: string): string {
  const lines = output.trim().split('\n');
  const last = lines.findLastIndex((line) => line.startsWith(complaintMark));
  const words = last < 0 ? lines.filter((line) => !line.startsWith('{')) : lines.slice(last);
  return words.join(' ').replace(complaintMark, '').slice(-2000);
}

/** The version and every setting that a runner is started with. */
function startedAs(config: Config): string {
  return createHash('sha256')
    .update(JSON.stringify([version, runnerEnvironment(config)]))
    .digest('hex');
}

/** Whether the running runner was started as this server would start it. */
function isAsStarted(config: Config, { startedAs: file }: LocalRunnerPaths): boolean {
  return existsSync(file) && readFileSync(file, 'utf8') === startedAs(config);
}

/**
 * The runner gets only its own settings: the address of the database contains a password, and the collector's headers a
 * token. It does not need the credentials of S3 either: the server gives it what it may read.
 */
function environmentOf(config: Config): NodeJS.ProcessEnv {
  const plain = Object.entries(process.env).filter(([name]) => !/^(HEADRACE|OTEL_|AWS_)/.test(name));
  return { ...Object.fromEntries(plain), ...runnerEnvironment(config) };
}

/** A connection to the running runner, if there is one. */
async function knock(path: string): Promise<Socket | undefined> {
  const socket = connect(path).on('error', () => {});
  return once(socket, 'connect').then(
    () => socket,
    () => undefined,
  );
}
