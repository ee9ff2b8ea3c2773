import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { diskReserveBytes, type Config } from '../../shared/config.ts';
import { holdFolder } from '../../runner/leftovers.ts';
import { openLink, type OpenLink, type ServerAddress } from '../../runner/link.ts';
import { openSandboxes } from '../../runner/sandbox/index.ts';
import { firstOwnId, hasOwnIds } from '../../runner/sandbox/own-ids.ts';
import { startRunner, type Runner } from '../../runner/runner.ts';
import { isOwnSubfolder, makeOwnFolder } from '../../shared/lib/own-subfolder.ts';
import { removeTree } from '../../shared/lib/remove-tree.ts';
import { createTlsTrust } from '../../shared/lib/tls-trust.ts';
import { openRunnerDeps } from '../../runner/runner-deps.ts';
import { WrongUse } from '../developer/errors.ts';
import type { Call } from './call.ts';
import { createLog } from './log.ts';
import { localRunnerPaths, type LocalRunnerPaths } from './local-runner.ts';
import { takeOwnIds } from './own-ids.ts';
import { openScratch } from './scratch.ts';
import { stopSignals } from './stopping.ts';
import { readToken } from './token-file.ts';
import { enterOwnIds } from './subordinate-ids.ts';

/** Builds run as another user on this machine, and read work trees and unpacked dependencies. */
const forBuilds = 0o022;

interface Options {
  url?: string;
  tokenFile?: string;
  caFile?: string;
  once?: true;
  untilIdle?: true;
  readyFile?: string;
  idle?: string;
  scratch?: string;
  local?: true;
  startedAs?: string;
  trial?: true;
}

export async function runner({ config, options }: Call<Options>): Promise<void> {
  const whyOneId = config.sandbox === 'off' ? undefined : await enterOwnIds();
  const stopping = stopSignals();
  process.umask(forBuilds);
  if (options.trial) return tryIsolation(config, whyOneId);
  refuseContradictions(options);
  const log = createLog(config);
  const warn = (message: string): void => log.warn(message);
  const scratch = options.scratch === undefined ? undefined : await openScratch(options.scratch, warn);
  const own = scratch ? { ...config, data_dir: scratch.path } : config;
  const lost = new AbortController();
  try {
    await work({ config: own, options, warn, stopping, lost, whyOneId });
  } finally {
    await scratch?.remove();
  }
  process.exit(lost.signal.aborted ? 1 : 0);
}

function refuseContradictions({ once, untilIdle, idle }: Options): void {
  if (once && untilIdle) throw new WrongUse('--once does one job, --until-idle several: choose one of them');
  if (!once && !untilIdle && idle !== undefined)
    throw new WrongUse('--idle is for a runner with --once or --until-idle');
}

/** In a temporary folder, because it needs nothing of the data folder. */
async function tryIsolation(config: Config, whyOneId: string | undefined): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'headrace-trial-'));
  try {
    chmodSync(folder, 0o711);
    const sandboxes = await openSandboxes({
      stateDir: join(folder, 'sandboxes'),
      network: config.build_network,
      isolation: 'required',
      isTrial: true,
      ownId: hasOwnIds() ? firstOwnId : undefined,
      whyOneId,
      log: () => {},
    });
    await sandboxes.close();
  } finally {
    await removeTree(folder);
  }
  process.exit(0);
}

interface Working {
  config: Config;
  options: Options;
  warn: (message: string) => void;
  stopping: ReturnType<typeof stopSignals>;
  lost: AbortController;
  whyOneId: string | undefined;
}

async function work({ config, options, warn, stopping: signals, lost, whyOneId }: Working): Promise<void> {
  const { asked: stopping, again } = signals;
  const isLocal = options.local === true;
  const paths = localRunnerPaths(config);
  const server = isLocal ? { socket: paths.serverSocket } : elsewhere(options);
  const shortLife = { idleMs: Number(options.idle ?? 60) * 1000 };
  const once = options.once && shortLife;
  const untilIdle = options.untilIdle && shortLife;
  const concurrency = once ? 1 : config.concurrency;
  makeOwnFolder(config.data_dir);
  if (!isLocal && isOwnSubfolder(config.data_dir))
    warn(`the data folder is ${config.data_dir}, because its parent folder belongs to another user`);
  const readiness = openReadiness(options.readyFile, warn);
  const link = openLink(
    { ...server, tags: config.tags, slots: concurrency },
    { note: warn, onConnected: (isConnected) => readiness.set(isConnected) },
  );
  const folder = isLocal ? paths.folder : join(config.data_dir, 'remote-runner');
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const lock = await holdFolder(folder);
  if (!lock) throw new Error(`another runner uses ${folder}`);
  const deps = await openRunnerDeps({
    folder,
    ownId: await takeOwnIds(folder, { whyOneId, log: warn }),
    whyOneId,
    concurrency,
    link,
    server: 'url' in server ? { url: server.url, ca: server.ca } : undefined,
    sshConfig: config.ssh_config,
    network: config.build_network,
    buildAllow: config.build_allow,
    buildPaths: config.build_paths,
    buildEnvironment: config.build_env,
    dependencyCacheBytes: config.dependency_cache * 1024 * 1024,
    gitAllow: config.git_allow,
    registryAllow: config.registry_allow,
    trust: createTlsTrust(config.trust_file),
    imageBytes: config.image_size * 1024 * 1024,
    imageCacheBytes: config.image_cache * 1024 * 1024,
    fetchTimeoutMs: config.fetch_timeout * 1000,
    checkoutBytes: config.checkout_size * 1024 * 1024,
    isolation: config.sandbox === 'off' ? 'off' : 'required',
    forbidsImageBuilds: config.image_builds === 'off',
    diskReserveBytes: diskReserveBytes(config),
    keepsBuilds: !once && !untilIdle,
    onLost: (error) => {
      warn(`the runner ends, because it can no longer isolate jobs: ${error.message}`);
      lost.abort();
    },
    log: warn,
  });
  if (stopping.aborted) {
    await deps.close();
    return;
  }
  const running = await startRunner({ link, folder, deps, concurrency, log: warn, once, untilIdle });
  const stop = (): void => void running.stop().catch(() => {}); // `done` below has its result
  // The server decides about its own runner.
  const onSignal = config.stop === 'drain' && !isLocal ? () => running.drain() : stop;
  stopping.addEventListener('abort', onSignal);
  if (stopping.aborted) onSignal();
  again.addEventListener('abort', stop);
  lost.signal.addEventListener('abort', stop);
  if (lost.signal.aborted) stop();
  if (isLocal) noteStart(paths, options.startedAs ?? '', warn);
  const alive = isLocal ? showLife(paths.alive, stop, warn) : undefined;
  if (isLocal) endWhenForgotten(config, { running, link, stop });
  try {
    await running.done;
  } finally {
    alive?.close();
    link.close();
    readiness.set(false);
    await lock.release();
  }
}

/** For the machine's administrators, and for the next server. A full disk must not stop the runner. */
function noteStart(
  { folder, startedAs: file }: LocalRunnerPaths,
  startedAs: string,
  log: (message: string) => void,
): void {
  try {
    writeFileSync(join(folder, 'pid'), String(process.pid), { mode: 0o600 });
    writeFileSync(file, startedAs, { mode: 0o600 });
  } catch (error) {
    log(`the files about the runner's start were not written: ${String(error)}`);
  }
}

function elsewhere({ url, tokenFile, caFile }: Options): ServerAddress {
  if (url === undefined || tokenFile === undefined) throw new Error('a runner needs --url and --token-file');
  return { url, token: readToken(tokenFile), ca: caFile && readFileSync(caFile, 'utf8') };
}

/** For container engines: the file exists while the runner is connected. */
function openReadiness(
  file: string | undefined,
  log: (message: string) => void,
): { set: (isConnected: boolean) => void } {
  const set = (isConnected: boolean): void => {
    if (file === undefined) return;
    try {
      if (isConnected) writeFileSync(file, '');
      else rmSync(file, { force: true });
    } catch (error) {
      log(`the file about the connection was not changed: ${String(error)}`);
    }
  };
  set(false);
  return { set };
}

/** An open connection shows that the runner is alive. Any byte on it stops the runner. */
function showLife(path: string, stop: () => void, log: (message: string) => void): Server {
  rmSync(path, { force: true });
  const server = createServer((socket) => {
    socket.on('data', () => stop());
    socket.on('error', () => {});
  });
  server.on('error', (error) => {
    log(`the socket of the runner failed, so the runner stops: ${error.message}`);
    stop();
  });
  process.umask(0o077);
  server.listen(path); // creates the socket before it returns
  process.umask(forBuilds);
  server.unref();
  return server;
}

const forgottenAfter = 60_000;

/** Stops an idle runner if its server does not return, and any runner if its data folder is gone. */
function endWhenForgotten(
  config: Config,
  { running, link, stop }: { running: Runner; link: OpenLink; stop: () => void },
): void {
  const timer = setInterval(() => {
    const isForgotten = !running.isBusy() && performance.now() - link.lastMessageAt() > forgottenAfter;
    if (isForgotten || !existsSync(config.data_dir)) stop();
  }, 2000);
  timer.unref();
}
