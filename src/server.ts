import type { FastifyBaseLogger } from 'fastify';
import type { AddressInfo } from 'node:net';
import { readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { hostname } from 'node:os';
import { endpointsOf } from './api/endpoints.ts';
import { forgetOldKeys } from './api/idempotency.ts';
import type { Services } from './api/call.ts';
import { forgetOldGuesses } from './auth/guesses.ts';
import { authenticateRunner } from './auth/runners.ts';
import { forgetOldSessions } from './auth/sessions.ts';
import { isSocketPath, type Config } from './config.ts';
import { isForeignKeyViolation } from './db/open.ts';
import { LeaseLapsedError } from './db/node-lease.ts';
import { createDispatch, type Dispatch } from './dispatch/dispatch.ts';
import { addDoor } from './dispatch/door.ts';
import type { BuildLimits, UnpackLimits } from './dispatch/kind.ts';
import { ApiError } from './errors.ts';
import { ownCertificate, type TlsFiles } from './http/certificate.ts';
import { createMetrics } from './http/metrics.ts';
import { openApiDocument } from './http/openapi.ts';
import { addOperations } from './http/operations.ts';
import { createServer } from './http/server.ts';
import { collectBlobs } from './lifecycle/collect.ts';
import { socketPath } from './lib/sockets.ts';
import { forgetOldCodes } from './oauth/codes.ts';
import { addTokenEndpoint } from './oauth/token-endpoint.ts';
import { forgetTurns } from './queue/turns.ts';
import { routes } from './resources/index.ts';
import { addressJudge } from './webhooks/addresses.ts';
import { startCourier } from './webhooks/courier.ts';
import { forgetOldDeliveries } from './webhooks/retention.ts';
import { patience, type Patience } from './webhooks/patience.ts';
import { createResolve, type Resolve } from './webhooks/resolve.ts';
import { addPages } from './ui/index.ts';

export interface RunningServer {
  /** As the line `listening on …` names it. */
  address: string;
  /** The runner on this machine has died: what it did is lost, and need not be waited for. */
  localRunnerGone(): void;
  close(): Promise<void>;
}

export interface ServerParts {
  config: Config;
  store: Services;
  log: FastifyBaseLogger;
  /** How often it is asked whether those who listen to a stream may go on. */
  streamPauseMs?: number;
  /** How webhooks are sent, where it is not as usual: tests do not have a day. */
  webhooks?: { patience?: Partial<Patience>; resolve?: Resolve };
}

const hour = 60 * 60 * 1000;

/** Puts the service together and starts to listen. */
export async function startServer({
  config,
  store,
  log,
  streamPauseMs,
  webhooks = {},
}: ServerParts): Promise<RunningServer> {
  const metrics = createMetrics();
  const tls = await tlsFor(config);
  const server = createServer({
    endpoints: endpointsOf(routes, store),
    ...(tls ? { tls } : {}),
    baseUrl: config.base_url,
    log,
    translate,
    streamPauseMs,
    onAnswered: (status, milliseconds) => metrics.answered(status, milliseconds),
  });
  addOperations(server, {
    document: openApiDocument(routes),
    metrics,
    metricsToken: config.metrics_token,
    isHealthy: async () =>
      (await store.db.read.selectFrom('applied_migrations').select('name').limit(1).execute()).length > 0,
  });
  const onTrouble = (error: unknown, id: string): void => log.error({ id, err: error }, 'a request failed');
  addTokenEndpoint(server, { ...store, onTrouble });
  addPages(server, { ...store, onTrouble, baseUrl: config.base_url, hasTls: tls !== undefined });
  const dispatch = await createDispatch({
    ...store,
    log,
    limits: limitsOf(config),
    unpacked: unpackLimitsOf(config),
    accountConcurrency: config.account_concurrency,
  });
  addDoor(server, dispatch, ({ headers }) => authenticateRunner(store.db, headers));
  const door = await openLocalDoor(config, dispatch, log);
  const courier = await startCourier({
    ...store,
    name: `server ${hostname()}:${config.data_dir}`,
    patience: { ...patience, ...webhooks.patience },
    postage: { mayCall: addressJudge(config.webhook_allow), resolve: webhooks.resolve ?? createResolve() },
    attempted: (outcome) => metrics.called(outcome),
    trouble: (error) => log.error({ err: error }, 'a webhook was not sent'),
  });
  await server.listen(isSocketPath(config.host) ? { path: config.host } : { host: config.host, port: config.port });
  const sweep = setInterval(() => {
    tidy(store).catch((error: unknown) => log.error({ err: error }, 'what nobody needs any more was not removed'));
  }, hour);

  return {
    address: addressOf(config, server.server.address()),
    localRunnerGone: () => {
      dispatch.gone(localHolder(config)).catch((error: unknown) => {
        log.error({ err: error }, 'what the local runner did is given up later, when its claims lapse');
      });
    },
    async close() {
      clearInterval(sweep);
      await server.close();
      await door.close();
      await courier.close();
      await dispatch.close();
    },
  };
}

/** Servers that share a database each have a runner of their own; the next server on the same folder takes it over. */
function localHolder({ data_dir: dataDir }: Config): string {
  return `local ${hostname()} ${dataDir}`;
}

/** Removes what nobody needs any more. Other servers do the same; twice does no harm. */
async function tidy({ db, blobs }: Services): Promise<void> {
  await forgetOldKeys(db);
  await forgetOldCodes(db);
  await forgetOldSessions(db);
  await forgetOldGuesses(db);
  await forgetTurns(db);
  await forgetOldDeliveries(db);
  await collectBlobs(db, blobs);
}

/** The door for the runner on this machine: whoever may enter the data folder may enter here. */
async function openLocalDoor(
  config: Config,
  dispatch: Dispatch,
  log: FastifyBaseLogger,
): Promise<{ close(): Promise<void> }> {
  const door = createServer({ endpoints: [], log, translate });
  addDoor(door, dispatch, async () => ({ holder: localHolder(config) }));
  const path = socketPath(config.data_dir, 'door.sock');
  await rm(path, { force: true }); // a server that died could not take it down
  await door.listen({ path });
  return door;
}

function limitsOf(config: Config): BuildLimits {
  return {
    memoryBytes: config.build_memory * 1024 * 1024,
    processes: config.build_processes,
    timeoutSeconds: config.build_timeout,
  };
}

function unpackLimitsOf(config: Config): UnpackLimits {
  return { bytes: config.archive_size * 1024 * 1024, entries: config.archive_entries };
}

async function tlsFor(config: Config): Promise<TlsFiles | undefined> {
  if (config.tls === 'off') return undefined;
  if (config.tls_key === undefined || config.tls_cert === undefined) return ownCertificate(config.data_dir);
  return { key: readFileSync(config.tls_key, 'utf8'), cert: readFileSync(config.tls_cert, 'utf8') };
}

/** What a lower layer means for a caller. */
function translate(error: unknown): ApiError | undefined {
  // The thing that a new one was to belong to was deleted in between.
  if (isForeignKeyViolation(error)) return new ApiError('not_found');
  if (error instanceof LeaseLapsedError) return new ApiError('resource_temporary_unavailable');
  return undefined;
}

function addressOf(config: Config, bound: AddressInfo | string | null): string {
  if (typeof bound !== 'object' || bound === null) return `unix:${config.host}`;
  const host = bound.family === 'IPv6' ? `[${bound.address}]` : bound.address;
  return `${config.tls === 'off' ? 'http' : 'https'}://${host}:${bound.port}`;
}
