import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import type { Config } from '../config.ts';
import { openLink, type ServerPlace } from '../runner/link.ts';
import { startRunner, type Runner } from '../runner/runner.ts';
import { openWorkshop } from '../runner/workshop.ts';
import type { Command } from './commands.ts';
import { createLog } from './log.ts';
import { runnerPlaces } from './local-runner.ts';

export const runner: Command = {
  usage: 'runner [--url U] [--token-file F] [--ca-file F] [--concurrency N] [--once] [--local]',
  about: 'Do the work of a server elsewhere; --once does one piece of it and ends',
  async run({ config, flags }) {
    const log = createLog(config.log_level);
    const isLocal = flags.local !== undefined;
    const places = runnerPlaces(config);
    const place: ServerPlace = isLocal ? { socket: places.door } : elsewhere(flags);
    const link = openLink(place);
    const folder = isLocal ? places.folder : join(config.data_dir, 'remote-runner');
    mkdirSync(folder, { recursive: true, mode: 0o711 });
    const { concurrency } = config;
    const say = (message: string): void => log.warn(message);
    const workshop = await openWorkshop({
      folder,
      concurrency,
      link,
      sshConfig: config.ssh_config,
      network: config.build_network,
      shelfBytes: config.dependency_cache * 1024 * 1024,
      fetchTimeoutMs: config.fetch_timeout * 1000,
      checkoutBytes: config.checkout_size * 1024 * 1024,
      isolation: config.sandbox === 'off' ? 'off' : 'required',
      log: say,
    });
    const running = await startRunner({
      link,
      folder,
      workshop,
      concurrency,
      log: say,
      once: flags.once !== undefined,
    });
    const stop = (): void => void running.stop().catch(() => {}); // how it ended is heard below
    process.once('SIGTERM', stop);
    process.once('SIGINT', stop);
    if (isLocal) writeFileSync(join(places.folder, 'pid'), String(process.pid));
    const alive = isLocal ? showLife(places.alive, stop) : undefined;
    if (isLocal) endWhenForgotten(config, running, stop);
    try {
      await running.done;
    } finally {
      alive?.close();
      link.close();
    }
    process.exit(0);
  },
};

function elsewhere(flags: Record<string, string | undefined>): ServerPlace {
  const { url, token_file: tokenFile, ca_file: caFile } = flags;
  if (url === undefined || tokenFile === undefined) throw new Error('a runner needs --url and --token-file');
  return { url, token: readFileSync(tokenFile, 'utf8').trim(), ca: caFile && readFileSync(caFile, 'utf8') };
}

/** Whoever connects sees by that that the runner lives, for as long as the connection stands; and may tell it to stop. */
function showLife(path: string, stop: () => void): Server {
  rmSync(path, { force: true });
  const server = createServer((socket) => {
    socket.on('data', () => stop());
    socket.on('error', () => {});
  });
  server.listen(path);
  server.unref();
  return server;
}

const forgottenAfter = 60_000;

/** A server that died and does not come back leaves its runner alone: without work and without a server, it goes too. */
function endWhenForgotten(config: Config, running: Runner, stop: () => void): void {
  const timer = setInterval(() => {
    const isForgotten = !running.isBusy() && Date.now() - running.heardAt() > forgottenAfter;
    if (isForgotten || !existsSync(config.data_dir)) stop();
  }, 2000);
  timer.unref();
}
