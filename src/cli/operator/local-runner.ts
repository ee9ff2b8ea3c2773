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
  serverSocket: string;
  alive: string;
  /** The runner may outlive the server's terminal, so it has its own log. */
  log: string;
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
  /** Ends a pause between attempts to start it. */
  look(): void;
  stop(): Promise<void>;
  /** Stops watching. The runner continues its jobs, and the next server finds it. */
  leave(): Promise<void>;
}

export interface Watcher {
  /** There is no runner: the jobs of the last one are lost. */
  onGone: () => void;
  /** The reason why the runner does not start. Reported once per reason. */
  onTrouble: (error: Error) => void;
  onMended: () => void;
  /** After `look`, the reason is still the same. */
  onSame: (error: Error) => void;
  /** An earlier server's runner has another version or settings. It is stopped when this resolves. */
  onOther: (signal: AbortSignal) => Promise<void>;
}

/**
 * The server's own runner is a separate process that outlives a crashed server, and the next server finds it by its
 * socket. If it was started differently, it is replaced once it has no jobs. Only a server that is stopped on purpose
 * stops it. A runner that exits is replaced.
 */
export function keepLocalRunner(config: Config, watcher: Watcher): LocalRunner {
  const { onGone, onOther } = watcher;
  const paths = localRunnerPaths(config);
  const stopping = new AbortController();
  const { signal } = stopping;
  /** On stop these get a signal, even if their socket is not open yet. */
  const started = new Set<ChildProcess>();

  let asked = new AbortController();
  let lastError: string | undefined;
  const note = (error: Error | undefined, isAsked: boolean): void => {
    if (error && error.message !== lastError) watcher.onTrouble(error);
    else if (error && isAsked) watcher.onSame(error);
    else if (!error && lastError !== undefined) watcher.onMended();
    lastError = error?.message;
  };

  const supervise = async (): Promise<void> => {
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
        // A machine seldom becomes able to isolate builds.
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
  const keeping = supervise();
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

/** The retry interval on a machine that cannot isolate builds, unless requested sooner. */
const lookAgainMs = 180_000;

const leaving = new Error('the runner continues without a server');

function askToStop(link: Socket): void {
  if (!link.destroyed) link.write('stop\n');
}

/** The signal stops the runner, or only closes the link if its reason is `leaving`. It may be aborted already. */
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

/** A small heap that is collected often fits a runner's short-lived objects. bin/headrace sets the same. */
const runnerMemory = '--max-semi-space-size=1';

function start(config: Config, paths: LocalRunnerPaths, started: Set<ChildProcess>): ChildProcess {
  // Done once here, so that the runner need not do it before every build.
  const flags = ['--local', '--data-dir', config.data_dir, '--started-as', startedAs(config)];
  const [program, ...args] = withoutStrays(
    [process.execPath, ...process.execArgv, runnerMemory, mainProgram, 'runner', ...flags],
    2,
  );
  const output = openSync(paths.log, 'w', 0o600);
  // Its own session: the server's terminal and exit do not reach it.
  const stdio = ['ignore' as const, output, output];
  const child = spawn(program, args, { detached: true, stdio, env: environmentOf(config) });
  started.add(child);
  for (const end of ['exit', 'error']) child.once(end, () => started.delete(child));
  child.unref();
  closeSync(output);
  return child;
}

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

/** The final message of the command, without its log before. */
function lastWords(output: string): string {
  const lines = output.trim().split('\n');
  const last = lines.findLastIndex((line) => line.startsWith(complaintMark));
  const complaint = last < 0 ? lines.filter((line) => !line.startsWith('{')) : lines.slice(last);
  return complaint.join(' ').replace(complaintMark, '').slice(-2000);
}

function startedAs(config: Config): string {
  return createHash('sha256')
    .update(JSON.stringify([version, runnerEnvironment(config)]))
    .digest('hex');
}

function isAsStarted(config: Config, { startedAs: file }: LocalRunnerPaths): boolean {
  return existsSync(file) && readFileSync(file, 'utf8') === startedAs(config);
}

/**
 * The runner gets only its own settings: the database's address has a password, and the collector's headers a token. It
 * needs no S3 credentials either, because the server gives it all blobs.
 */
function environmentOf(config: Config): NodeJS.ProcessEnv {
  const plain = Object.entries(process.env).filter(([name]) => !/^(HEADRACE|OTEL_|AWS_)/.test(name));
  return { ...Object.fromEntries(plain), ...runnerEnvironment(config) };
}

async function knock(path: string): Promise<Socket | undefined> {
  const socket = connect(path).on('error', () => {});
  return once(socket, 'connect').then(
    () => socket,
    () => undefined,
  );
}
