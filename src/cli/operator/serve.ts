import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import type { Logger } from 'pino';
import { isUnavailable } from '../../server/db/unavailable.ts';
import { ApiError } from '../../shared/errors.ts';
import { openSpanExporter } from '../../server/tracing/span-exporter.ts';
import { version } from '../../shared/protocol/index.ts';
import { recordAudit } from '../../server/auth/audit.ts';
import { lookAgain } from '../../server/auth/runner-heartbeats.ts';
import { insertUser, makeCredentials, type Credentials } from '../../server/auth/users.ts';
import { startServer, type RunningServer } from '../../server/server.ts';
import { isAboutIsolation } from '../../shared/domain/isolation.ts';
import { publicUrl } from '../../shared/domain/public-url.ts';
import { isOwnSubfolder, makeOwnFolder } from '../../shared/lib/own-subfolder.ts';
import { failWith, tell, type Call } from './call.ts';
import { lockDataFolder } from './folder-lock.ts';
import { keepLocalRunner, type LocalRunner } from './local-runner.ts';
import { createLog } from './log.ts';
import { onTheMachine } from './machine.ts';
import { keepBallast, makeRoomToStart } from './room.ts';
import { explainStart, noteArchitecture, proveDataFolder } from './start-failures.ts';
import { stopSignals, wayToStop, type Stopped, type WayToStop } from './stopping.ts';
import { openStore, type Store } from './store.ts';

const closingTime = 10_000;
const undoTime = 5000;

interface Options {
  runner: boolean;
  /** Instead of standard output, which a service manager writes to a log. */
  firstUserFile?: string;
}

export async function serve(call: Call<Options>): Promise<void> {
  const { config } = call;
  const watched: Watched = {};
  const stopping = stopSignals(() => watched.runner?.look());
  const { asked } = stopping;
  const log = createLog(config);
  const way = wayToStop(config);
  let server: RunningServer | undefined;
  asked.addEventListener('abort', () => {
    log.info({ signal: (asked.reason as Stopped).signal, way }, 'stopping');
    if (way !== 'drain' || !server) closeInTime();
  });
  stopping.again.addEventListener('abort', () => {
    log.info('second stop request: stopping without waiting');
    closeInTime();
  });
  const opened = new AsyncDisposableStack();
  try {
    server = await start({ call, log, way, watched }, opened, asked);
    if (!asked.aborted) await once(asked, 'abort');
    if (way === 'drain') {
      await server.drain(stopping.again);
      closeInTime();
    }
  } catch (error) {
    if (error !== asked.reason) {
      const explained = server ? error : explainStart(error, config);
      setTimeout(() => failWith(explained), undoTime).unref();
      await opened.disposeAsync();
      throw explained;
    }
  }
  await opened.disposeAsync();
  process.exit(0);
}

/** Even if something hangs. */
function closeInTime(): void {
  setTimeout(() => process.exit(1), closingTime).unref();
}

interface Watched {
  runner?: LocalRunner;
}

interface Wanted {
  call: Call<Options>;
  watched: Watched;
  log: Logger;
  way: WayToStop;
}

/** Each resource is on the stack as soon as it is open. So all can be closed at any moment, in reverse order. */
async function start(
  { call, log, way, watched }: Wanted,
  opened: AsyncDisposableStack,
  stopping: AbortSignal,
): Promise<RunningServer> {
  const { config, options } = call;
  proveDataFolder(config);
  makeOwnFolder(config.data_dir);
  if (isOwnSubfolder(config.data_dir))
    log.info(`the data folder is ${config.data_dir}, because its parent folder belongs to another user`);
  const lock = await lockDataFolder(config.data_dir);
  opened.defer(() => lock.release());
  await makeRoomToStart(config, (message) => log.warn(message));
  stopping.throwIfAborted();
  const note = (message: string): void => log.warn(message);
  const store = await openStore(config, (error) => log.error({ err: error }, 'database error'), note);
  opened.defer(() => store.close());
  await proveBlobs(store);
  stopping.throwIfAborted();
  const tracer = await openSpanExporter({
    env: process.env,
    version,
    onTrouble: (reason) =>
      reason === undefined
        ? log.info('the collector accepts traces again')
        : log.warn({ reason }, 'the collector does not accept traces; they are dropped'),
  });
  opened.defer(() => tracer?.close());
  const server = await startServer({ config, store, log, tracer });
  opened.defer(() => server.close());
  stopping.throwIfAborted();
  noteArchitecture(config);
  // Only after the start: credentials of a failed start would never be shown.
  const first = await firstUser(store);
  if (first) introduce(call, publicUrl(config.base_url, server.address), first);
  lock.noteAddress(server.address);
  tell(call, { listening: server.address }, `listening on ${server.address}`);
  const ballast = keepBallast(config, store.disk);
  opened.defer(() => ballast.close());
  if (!options.runner || stopping.aborted) return server;
  const local = keepLocalRunner(config, {
    onGone: () => server.localRunnerGone(),
    onOther: (signal) => {
      log.info('the runner of an earlier start differs: it ends after its present jobs, and a new one replaces it');
      return server.retireLocalRunner(signal);
    },
    onTrouble: ({ message }) => {
      log.error(
        isAboutIsolation(message) ? message : `the local runner does not start, so no build runs here: ${message}`,
      );
      server.localRunnerFails(message);
    },
    onMended: () => log.info('the local runner has started: builds run here'),
    onSame: () => log.warn('tried again: the local runner still does not start, for the same reason'),
  });
  watched.runner = local;
  opened.defer(store.db.listen((topic) => topic === lookAgain && local.look()));
  opened.defer(async () => {
    if (way === 'leave' && (await server.leaveLocalRunner())) return local.leave();
    await local.stop();
    await server.localRunnerStopped();
  });
  return server;
}

/** An unreachable blob storage is only logged, unlike a wrong address: most of the service works without it. */
async function proveBlobs({ blobs }: Store): Promise<void> {
  try {
    await blobs.prove();
  } catch (error) {
    if (!isUnavailable(error)) throw error;
    if (error.needsOperator) throw new Error(`blob_url: ${error.message}`, { cause: error });
  }
}

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

/** With a file, the password is never printed, even if the file cannot be written: the output may be a log. */
function introduce(call: Call<Options>, address: string, credentials: Credentials): void {
  const { firstUserFile: file } = call.options;
  const { email, password, api_key: apiKey } = credentials;
  const facts = `  address   ${address.startsWith('unix:') ? address : `${address}/`}
  e-mail    ${email}
  password  ${password}
  API key   ${apiKey}
`;
  if (file === undefined) {
    tell(
      call,
      { first_user: { address, email, password, api_key: apiKey } },
      `\nHeadrace is new here. Its first user, shown this once:\n\n${facts}`,
    );
    return;
  }
  try {
    writeFileSync(file, facts, { flag: 'wx', mode: 0o600 });
    tell(call, { first_user_file: file }, `Headrace is new here. The first user’s credentials are in ${file}`);
  } catch (error) {
    console.error(
      `headrace: the first user’s credentials could not be written (${String(error)}). Create new ones: admin user reset ${email}`,
    );
  }
}
