import type { Logger } from 'pino';
import type { Config } from '../config.ts';
import { ApiError } from '../errors.ts';
import { openSpanExporter } from '../lifecycle/span-exporter.ts';
import { version } from '../protocol.ts';
import { recordAudit } from '../auth/audit.ts';
import { insertUser, makeCredentials, type Credentials } from '../auth/users.ts';
import { startServer, type RunningServer } from '../server.ts';
import { publicAddress } from '../lib/public-address.ts';
import { failWith, type Command } from './commands.ts';
import { lockDataFolder } from './folder-lock.ts';
import { keepLocalRunner } from './local-runner.ts';
import { createLog } from './log.ts';
import { onTheMachine } from './machine.ts';
import { keepBallast, makeRoomToStart } from './room.ts';
import { stopSignals, untilAborted, wayToStop, type Stopped, type WayToStop } from './stopping.ts';
import { openStore, type Store } from './store.ts';
import { withTags } from './tags.ts';

/** How long requests may still take when the server closes. */
const closingTime = 10_000;
/** How long the cleanup after a failed start may take. */
const undoTime = 5000;

export const serve: Command = {
  usage: 'serve [--host H] [--port P] [--no-runner] [--tag T...]',
  about: 'Run the service',
  async run({ config: given, flags, lists }) {
    const config = withTags(given, lists.tag);
    const stopping = stopSignals();
    const { asked } = stopping;
    const log = createLog(config.log_level);
    const way = wayToStop(config);
    let server: RunningServer | undefined;
    asked.addEventListener('abort', () => {
      log.info({ signal: (asked.reason as Stopped).signal, way }, 'stopping');
      if (way !== 'drain' || !server) closeInTime();
    });
    stopping.again.addEventListener('abort', () => {
      log.info('asked to stop again: nothing more is waited for');
      closeInTime();
    });
    const opened = new AsyncDisposableStack();
    try {
      server = await start({ config, log, way, hasRunner: flags.no_runner === undefined }, opened, asked);
      await untilAborted(asked);
      if (way === 'drain') {
        await server.drain(stopping.again);
        closeInTime();
      }
    } catch (error) {
      if (error !== asked.reason) {
        setTimeout(() => failWith(error), undoTime).unref();
        await opened.disposeAsync();
        throw error;
      }
    }
    await opened.disposeAsync();
    process.exit(0);
  },
};

/** Whatever hangs does not keep the process. */
function closeInTime(): void {
  setTimeout(() => process.exit(1), closingTime).unref();
}

interface Wanted {
  config: Config;
  log: Logger;
  way: WayToStop;
  hasRunner: boolean;
}

/** Everything that is opened is put on the stack at once, so that it can be closed at any moment, the last first. */
async function start(
  { config, log, way, hasRunner }: Wanted,
  opened: AsyncDisposableStack,
  stopping: AbortSignal,
): Promise<RunningServer> {
  const lock = await lockDataFolder(config.data_dir);
  opened.defer(() => lock.release());
  await makeRoomToStart(config, (message) => log.warn(message));
  stopping.throwIfAborted();
  const store = await openStore(config, (error) => log.error({ err: error }, 'database error'));
  opened.defer(() => store.close());
  stopping.throwIfAborted();
  const tracer = await openSpanExporter({
    env: process.env,
    version,
    onTrouble: (reason) =>
      reason === undefined
        ? log.info('the collector takes traces again')
        : log.warn({ reason }, 'the collector does not take traces; they are dropped'),
  });
  opened.defer(() => tracer?.close());
  const server = await startServer({ config, store, log, tracer });
  opened.defer(() => server.close());
  stopping.throwIfAborted();
  // Only after the start: credentials of a failed start would never be shown.
  const first = await firstUser(store);
  if (first) introduce(publicAddress(config.base_url, server.address), first);
  lock.noteAddress(server.address);
  console.log(`listening on ${server.address}`);
  const ballast = keepBallast(config, store.disk);
  opened.defer(() => ballast.close());
  if (!hasRunner || stopping.aborted) return server;
  const local = keepLocalRunner(config, {
    onGone: () => server.localRunnerGone(),
    onOther: (signal) => {
      log.info('the runner of an earlier start differs: it ends after what it does, and another one takes its place');
      return server.retireLocalRunner(signal);
    },
    onTrouble: ({ message }) => {
      log.error(`the local runner does not start, so no build runs here: ${message}`);
      server.localRunnerFails(message);
    },
  });
  opened.defer(async () => {
    if (way === 'leave' && (await server.leaveLocalRunner())) return local.leave();
    await local.stop();
    await server.localRunnerStopped();
  });
  return server;
}

/** Creates the first user of an empty installation. */
async function firstUser({ db, ids }: Store): Promise<Credentials | undefined> {
  const anybody = await db.read.selectFrom('users').select('id').limit(1).executeTakeFirst();
  if (anybody) return undefined;
  const email = 'admin@localhost';
  const { credentials, stored } = await makeCredentials(email);
  try {
    await db.transaction(async (trx) => {
      const id = await insertUser(trx, ids, { email, kind: 'user', secrets: stored });
      const deed = { action: 'user.created', subject: { id, name: email }, details: { kind: 'user' } } as const;
      await recordAudit(trx, ids, onTheMachine(), deed);
    });
  } catch (error) {
    if (error instanceof ApiError) return undefined; // another server that started at the same time was first
    throw error;
  }
  return credentials;
}

function introduce(address: string, { email, password, api_key: apiKey }: Credentials): void {
  console.log(`
Headrace is new here. Its first user, shown this once:

  address   ${address.startsWith('unix:') ? address : `${address}/`}
  e-mail    ${email}
  password  ${password}
  API key   ${apiKey}
`);
}
