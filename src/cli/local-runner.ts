import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync, readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { join } from 'node:path';
import type { Config } from '../config.ts';
import { doorPath } from '../server.ts';

export interface RunnerPlaces {
  folder: string;
  /** Where the server lets it in. */
  door: string;
  /** Where it shows that it lives. */
  alive: string;
  /** What it has to say: it may outlive the terminal that the server was started in. */
  log: string;
}

/**
 * The runner that comes with a server. It is a process of its own and not the server's child in spirit: it outlives a
 * server that dies, and the next one finds it by the socket on which it shows that it lives. Only a server that is
 * stopped on purpose stops it.
 */
export function runnerPlaces(config: Config): RunnerPlaces {
  const folder = join(config.data_dir, 'runner');
  // Socket paths are short by nature, so they stand right in the data folder.
  return {
    folder,
    door: doorPath(config.data_dir),
    alive: join(config.data_dir, 'runner.sock'),
    log: join(config.data_dir, 'runner.log'),
  };
}

export interface LocalRunner {
  stop(): Promise<void>;
}

/** Adopts the runner that is there, or starts one. `onGone` is called when it ends without being asked. */
export async function startLocalRunner(config: Config, onGone: () => void): Promise<LocalRunner> {
  const places = runnerPlaces(config);
  let stopping = false;
  const adopted = await knock(places.alive);
  if (!adopted) startProcess(config);
  let link = adopted ?? (await knockUntilOpen(places));
  const watch = (socket: Socket): void => {
    link = socket;
    socket.once('close', () => {
      if (!stopping) void replace();
    });
  };
  const replace = async (): Promise<void> => {
    onGone();
    startProcess(config);
    watch(await knockUntilOpen(places));
  };
  watch(link);
  return {
    async stop() {
      stopping = true;
      if (link.destroyed) return;
      const gone = once(link, 'close');
      link.end('stop\n');
      await gone;
    },
  };
}

function startProcess(config: Config): void {
  const main = join(import.meta.dirname, '..', 'main.ts');
  const args = ['--disable-warning=ExperimentalWarning', main, 'runner', '--local', '--data-dir', config.data_dir];
  // Its own session: what is typed at the server's terminal, and the server's end, do not reach it.
  const said = openSync(runnerPlaces(config).log, 'w', 0o600);
  spawn(process.execPath, args, {
    detached: true,
    stdio: ['ignore', said, said],
    env: environmentOf(config),
  }).unref();
}

/** Of the server's settings the runner gets its own alone: the address of a database, for one, holds a password. */
function environmentOf(config: Config): NodeJS.ProcessEnv {
  const plain = Object.entries(process.env).filter(([name]) => !name.startsWith('HEADRACE'));
  return {
    ...Object.fromEntries(plain),
    HEADRACE_LOG_LEVEL: config.log_level,
    HEADRACE_SANDBOX: config.sandbox,
    HEADRACE_BUILD_NETWORK: config.build_network,
    HEADRACE_CONCURRENCY: String(config.concurrency),
    ...(config.ssh_config === undefined ? {} : { HEADRACE_SSH_CONFIG: config.ssh_config }),
  };
}

async function knock(path: string): Promise<Socket | undefined> {
  const socket = connect(path);
  const open = Promise.withResolvers<boolean>();
  socket.once('connect', () => open.resolve(true));
  socket.on('error', () => open.resolve(false));
  return (await open.promise) ? socket : undefined;
}

const patience = 30_000;

async function knockUntilOpen({ alive: path, log }: RunnerPlaces): Promise<Socket> {
  const deadline = Date.now() + patience;
  for (;;) {
    const socket = await knock(path);
    if (socket) return socket;
    if (Date.now() > deadline)
      throw new Error(`the local runner did not start: ${readFileSync(log, 'utf8').trim().slice(-2000)}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
