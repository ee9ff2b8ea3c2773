import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Config } from '../config.ts';
import { withoutStrays } from '../lib/descriptors.ts';
import { socketPath } from '../lib/sockets.ts';

export interface RunnerPlaces {
  folder: string;
  /** Where the server lets it in. */
  serverSocket: string;
  /** Where it shows that it lives. */
  alive: string;
  /** What it has to say: it may outlive the terminal that the server was started in. */
  log: string;
}

export function runnerPlaces({ data_dir: dataDir }: Config): RunnerPlaces {
  return {
    folder: join(dataDir, 'runner'),
    serverSocket: socketPath(dataDir, 'server.sock'),
    alive: socketPath(dataDir, 'runner.sock'),
    log: join(dataDir, 'runner.log'),
  };
}

export interface LocalRunner {
  stop(): Promise<void>;
}

export interface Watcher {
  /** There is none: what the last one did is lost. */
  onGone: () => void;
  /** It does not start, and this is why. */
  onTrouble: (error: Error) => void;
}

/**
 * The runner that comes with a server. It is a process of its own and not the server's child in spirit: it outlives a
 * server that dies, and the next one finds it by the socket on which it shows that it lives. Only a server that is
 * stopped on purpose stops it. One that ends by itself is replaced.
 */
export function keepLocalRunner(config: Config, { onGone, onTrouble }: Watcher): LocalRunner {
  const places = runnerPlaces(config);
  const stopping = new AbortController();
  const { signal } = stopping;
  /** Those that were started here and have not ended: one that nobody can reach yet is told to stop all the same. */
  const started = new Set<ChildProcess>();

  const keep = async (): Promise<void> => {
    for (let wait = 100; !signal.aborted; wait = Math.min(wait * 2, 30_000)) {
      try {
        let link = await knock(places.alive);
        if (!link && !signal.aborted) {
          onGone(); // also what one did that died together with an earlier server
          link = await reach(start(config, places, started), places, signal);
        }
        if (link) await untilGone(link, signal);
        wait = 100;
      } catch (error) {
        if (!signal.aborted) onTrouble(error as Error);
      }
      await pause(wait, undefined, { signal }).catch(() => {});
    }
  };
  const keeping = keep();
  return {
    async stop() {
      stopping.abort();
      for (const child of started) child.kill('SIGTERM');
      await keeping;
      await Promise.all(Array.from(started, (child) => ended(child)));
    },
  };
}

/** For as long as the runner lives; one that is found while we are to stop is told to, like one that was there before. */
async function untilGone(link: Socket, signal: AbortSignal): Promise<void> {
  const tell = (): void => void (link.destroyed || link.write('stop\n'));
  if (signal.aborted) tell();
  signal.addEventListener('abort', tell);
  const { promise, resolve } = Promise.withResolvers<void>();
  if (link.closed) resolve();
  link.once('close', resolve).resume();
  await promise;
  signal.removeEventListener('abort', tell);
}

async function ended(child: ChildProcess): Promise<void> {
  child.ref();
  await once(child, 'exit');
}

/**
 * What a runner makes is short-lived: all of it fits into a little memory that is swept often. Node would let that grow to
 * many times as much before it looks. bin/headrace says the same for runners that are started by hand.
 */
const runnerMemory = '--max-semi-space-size=1';

function start(config: Config, places: RunnerPlaces, started: Set<ChildProcess>): ChildProcess {
  const main = join(import.meta.dirname, '..', 'main.ts');
  // Here once, so that the runner need not see to it before every build.
  const [program, ...args] = withoutStrays(
    [process.execPath, ...process.execArgv, runnerMemory, main, 'runner', '--local', '--data-dir', config.data_dir],
    2,
  );
  const output = openSync(places.log, 'w', 0o600);
  // Its own session: what is typed at the server's terminal, and the server's end, do not reach it.
  const stdio = ['ignore' as const, output, output];
  const child = spawn(program, args, { detached: true, stdio, env: environmentOf(config) });
  started.add(child);
  for (const end of ['exit', 'error']) child.once(end, () => started.delete(child));
  child.unref();
  closeSync(output);
  return child;
}

/** Waits until it shows that it lives; undefined when it is to stop, which it has been told. */
async function reach(child: ChildProcess, places: RunnerPlaces, signal: AbortSignal): Promise<Socket | undefined> {
  const failed = Promise.withResolvers<never>();
  child.once('error', failed.reject);
  failed.promise.catch(() => {});
  while (!signal.aborted) {
    const socket = await knock(places.alive);
    if (socket) return socket;
    if (child.exitCode !== null || child.signalCode !== null) {
      const said = readFileSync(places.log, 'utf8').trim().slice(-2000);
      throw new Error(said || `it ended by ${child.signalCode ?? child.exitCode}, without a word`);
    }
    await Promise.race([pause(30), failed.promise]);
  }
  return undefined;
}

/** Of the server's settings the runner gets its own alone: the address of a database, for one, holds a password. */
function environmentOf(config: Config): NodeJS.ProcessEnv {
  const plain = Object.entries(process.env).filter(([name]) => !name.startsWith('HEADRACE'));
  return {
    ...Object.fromEntries(plain),
    HEADRACE_LOG_LEVEL: config.log_level,
    HEADRACE_SANDBOX: config.sandbox,
    HEADRACE_BUILD_NETWORK: config.build_network,
    HEADRACE_BUILD_ALLOW: config.build_allow.join(','),
    HEADRACE_BUILD_PATHS: config.build_paths.join(','),
    HEADRACE_FETCH_TIMEOUT: String(config.fetch_timeout),
    HEADRACE_CHECKOUT_SIZE: String(config.checkout_size),
    HEADRACE_DEPENDENCY_CACHE: String(config.dependency_cache),
    HEADRACE_CONCURRENCY: String(config.concurrency),
    ...(config.disk_reserve === undefined ? {} : { HEADRACE_DISK_RESERVE: String(config.disk_reserve) }),
    ...(config.ssh_config === undefined ? {} : { HEADRACE_SSH_CONFIG: config.ssh_config }),
  };
}

/** A connection to the runner that is there, if there is one. */
async function knock(path: string): Promise<Socket | undefined> {
  const socket = connect(path);
  const open = Promise.withResolvers<boolean>();
  socket.once('connect', () => open.resolve(true));
  socket.on('error', () => open.resolve(false));
  return (await open.promise) ? socket : undefined;
}
