import type { FastifyBaseLogger } from 'fastify';
import { rm } from 'node:fs/promises';
import { hostname } from 'node:os';
import packageJson from '../../package.json' with { type: 'json' };
import { agentEndpoint, agentScopes } from './agents/endpoint.ts';
import { llmsText } from './agents/llms.ts';
import { agentPaths } from './agents/openapi.ts';
import { createPublicRate } from './auth/public-rate.ts';
import { noteTokenUses } from './auth/token-uses.ts';
import { endpointsOf } from './api/endpoints.ts';
import { innerCalls } from './api/inner-calls.ts';
import type { CallDeps } from './api/call.ts';
import { forgetSilence } from './auth/identities.ts';
import { localHeartbeats } from './auth/runner-heartbeats.ts';
import { authenticateRunner } from './auth/runners.ts';
import { isSocketPath, type Config } from '../shared/config.ts';
import { watchHealth } from './db/health.ts';
import { observeBlobs } from './db/observed-blobs.ts';
import { startForgeUpkeep } from './forges/upkeep.ts';
import { createDispatch } from './dispatch/dispatch.ts';
import { runnerRoutes, type RunnerRoutes } from './dispatch/runner-routes.ts';
import { watchOverview } from './dispatch/overview.ts';
import type { ConnectionTimes } from './http/connections.ts';
import { listenOn } from './http/listen.ts';
import { createMetrics, type Metrics } from './http/metrics.ts';
import { monitoringPaths } from './http/monitoring-paths.ts';
import { openApiDocument } from './http/openapi.ts';
import { addPlainRoutes } from './http/plain-routes.ts';
import { addOperations } from './http/operations.ts';
import { createServer } from './http/server.ts';
import { hasOwnName, strictTransport } from './http/strict-transport.ts';
import { boundedBodies, type BodyLimits } from './inbound-hooks/bodies.ts';
import { hookEndpoint } from './inbound-hooks/endpoint.ts';
import { identityDocuments, identityPaths } from './identity/documents.ts';
import { openSigningKeys } from './identity/keys.ts';
import { createIdentity } from './identity/tokens.ts';
import { hookPaths } from './inbound-hooks/openapi.ts';
import { createPayloadThread } from './inbound-hooks/payload.ts';
import { countRefusals } from './inbound-hooks/refusals.ts';
import { mostArtifacts } from './outputs/artifacts.ts';
import { watchEndings } from './lifecycle/endings.ts';
import { startScheduleClock } from './triggers/schedule-clock.ts';
import { buildMachine, isFinal } from './lifecycle/states.ts';
import type { Tracer } from './lifecycle/spans.ts';
import { traceWith } from './tracing/traces.ts';
import { socketPath } from '../shared/lib/sockets.ts';
import { createIssuer } from './oidc/issuer.ts';
import { isOperatorBy } from './oidc/judge.ts';
import { startLooks } from './oidc/look-again.ts';
import { clientDocuments } from './oauth/client-documents.ts';
import { metadataPaths, oauthMetadata } from './oauth/metadata.ts';
import { tokenEndpoint } from './oauth/token-endpoint.ts';
import { artifactHost } from './resources/artifact-host.ts';
import { configuringFrom } from './resources/config-repository.ts';
import { pageRoutes, routes } from './resources/index.ts';
import { publicUrl } from '../shared/domain/public-url.ts';
import { publicAddressFilter } from '../shared/lib/address-filter.ts';
import { startSender } from './outbound-webhooks/sender.ts';
import { retryPolicy, type RetryPolicy } from './outbound-webhooks/retry-policy.ts';
import { createResolve, type Resolve } from '../shared/lib/resolve.ts';
import { createTlsTrust } from '../shared/lib/tls-trust.ts';
import { addPages } from './ui/index.ts';
import { addressOf, apiFor, tlsFor } from './addresses.ts';
import { issuerSettings } from './issuer-settings.ts';
import { connectionLimits, limitsOf, unpackLimitsOf } from './limits.ts';
import { startTellingOfTokens } from './token-ends.ts';
import { translateWith } from './translate.ts';
import { startUpkeep, upkeepTasks } from './upkeep.ts';

export interface RunningServer {
  /** The address as in `listening on …`. */
  address: string;
  /** The local runner has died: its jobs are lost at once. Another local runner is started. */
  localRunnerGone(): void;
  localRunnerFails(reason: string): void;
  /** No other local runner is started. */
  localRunnerStopped(): Promise<void>;
  /** The local runner gets no new work. Resolves when its jobs are done, or on the signal. */
  retireLocalRunner(signal: AbortSignal): Promise<void>;
  /** This server accepts and assigns no new work. Resolves like `retireLocalRunner`. */
  drain(signal: AbortSignal): Promise<void>;
  /** True if the local runner has jobs. It gets no new jobs, and continues after this server is closed. */
  leaveLocalRunner(): Promise<boolean>;
  close(): Promise<void>;
}

export interface ServerParts {
  config: Config;
  store: CallDeps & { proveWritable(): Promise<void>; proveReadable(): Promise<void> };
  log: FastifyBaseLogger;
  /** How often the server checks that listeners of streams are still authorized. */
  streamPauseMs?: number;
  connectionTimes?: Partial<ConnectionTimes>;
  hookBodies?: { limits: BodyLimits; now: () => number };
  /** The clock for schedules, and for tokens of builds and their keys. */
  now?: () => number;
  tracer?: Tracer | undefined;
  webhooks?: { retryPolicy?: Partial<RetryPolicy>; resolve?: Resolve };
  forgePaceMs?: number;
}

export async function startServer({
  config,
  store: opening,
  log,
  streamPauseMs,
  connectionTimes,
  hookBodies,
  webhooks = {},
  now = Date.now,
  tracer,
  forgePaceMs,
}: ServerParts): Promise<RunningServer> {
  // If the start fails, everything that was opened is closed, in reverse order.
  await using opened = new AsyncDisposableStack();
  const metrics = createMetrics({
    buildStates: buildMachine.states.filter((state) => isFinal(buildMachine, state)),
    upkeepTasks,
  });
  opened.defer(() => metrics.close());
  const store = { ...opening, blobs: observeBlobs(opening.blobs, metrics.blobs) };
  store.db.observe(metrics.database);
  opened.defer(countBuilds(store, metrics));
  if (tracer) opened.defer(traceWith(store.observers, tracer));
  const tls = await tlsFor(config, log);
  const isBehindProxy = tls === undefined;
  const draining = { isDraining: () => state.isDraining };
  const state = { isDraining: false, leavesRunner: false };
  const publicRate = store.publicProjects ? createPublicRate(config.public_rate) : undefined;
  const tokenUses = noteTokenUses({
    db: store.db,
    onTrouble: (error) => log.error({ err: error }, 'recording the use of tokens failed'),
  });
  opened.defer(() => tokenUses.close());
  const calls = innerCalls([...routes, ...pageRoutes], {
    ...store,
    ...draining,
    publicRate,
    isBehindProxy,
    baseUrl: config.base_url,
  });
  const { artifactAddresses: addresses } = store;
  const server = createServer({
    otherHost:
      addresses &&
      artifactHost({
        ...store,
        addresses,
        calls,
        headers: hasOwnName({ baseUrl: addresses.origin, cert: undefined })
          ? { 'strict-transport-security': strictTransport }
          : {},
        translate: translateWith(log),
        onAnswered: (status, milliseconds) => metrics.answered(status, milliseconds),
        onTrouble: (error) => log.error({ err: error }, 'a request for an artifact failed'),
      }),
    endpoints: endpointsOf(routes, {
      ...store,
      ...draining,
      publicRate,
      tokenUses,
      isBehindProxy,
      baseUrl: config.base_url,
      metricsToken: config.metrics_token,
    }),
    ...(tls ? { tls } : {}),
    baseUrl: config.base_url,
    log,
    translate: translateWith(log),
    streamPauseMs,
    connectionTimes,
    connections: { limits: connectionLimits(config), watcher: metrics.connections },
    isStrict: hasOwnName({ baseUrl: config.base_url, cert: config.tls_cert === undefined ? undefined : tls?.cert }),
    onAnswered: (status, milliseconds) => metrics.answered(status, milliseconds),
  });
  addOperations(server, {
    document: () =>
      openApiDocument(
        routes,
        { ...monitoringPaths, ...hookPaths, ...identityPaths, ...metadataPaths, ...agentPaths },
        config.base_url?.replace(/\/+$/, ''),
      ),
    metrics,
    metricsToken: config.metrics_token,
    overview: watchOverview(store.db),
    problem: orDraining(
      state,
      watchHealth({
        disk: store.disk,
        isAway: () => store.db.isAway(),
        write: () => store.proveWritable(),
        unseal: () => store.proveReadable(),
        proveBlobs: () => store.blobs.prove(),
        onChange: (reason) =>
          reason === undefined ? log.info('service is healthy again') : log.error({ reason }, 'service is unhealthy'),
      }),
    ),
  });
  const onTrouble = (error: unknown, id: string): void => log.error({ id, err: error }, 'a request failed');
  const origin = (): string => publicUrl(config.base_url, addressOf(config, server.server.address()));
  const callRules = {
    mayCall: publicAddressFilter(config.webhook_allow),
    resolve: webhooks.resolve ?? createResolve(),
    trust: createTlsTrust(config.trust_file),
  };
  addPlainRoutes(server, tokenEndpoint({ ...store, isBehindProxy, onTrouble, issuer: origin }));
  addPlainRoutes(
    server,
    agentEndpoint({
      ...store,
      tokenUses,
      calls,
      origin,
      isBehindProxy,
      version: packageJson.version,
      translate: translateWith(log),
      onTrouble,
      recheckMs: streamPauseMs,
    }),
  );
  addPlainRoutes(server, oauthMetadata(origin, agentScopes(calls)));
  addPlainRoutes(server, llmsText(origin));
  const issuerOf = issuerSettings(config);
  const issuer =
    issuerOf &&
    createIssuer({
      settings: issuerOf,
      resolve: createResolve(),
      trust: createTlsTrust(config.trust_file),
      onTrouble: (error) => log.warn({ err: error }, 'the issuer that signs users in gave no usable answer'),
    });
  addPages(server, {
    site: {
      ...store,
      issuer,
      origin,
      documents: clientDocuments(callRules),
      rules: {
        takesPasswords: config.passwords === 'on',
        isOperator: (vouched) => issuerOf !== undefined && isOperatorBy(issuerOf, vouched),
      },
    },
    calls,
    translate: translateWith(log),
    onTrouble,
    baseUrl: config.base_url,
    hasTls: tls !== undefined,
    imageBuilds: store.imageBuilds,
    publicProjects: store.publicProjects,
  });
  const refusals = countRefusals({
    ...store,
    onTrouble: (error) => log.error({ err: error }, 'counting refused calls of hooks failed'),
  });
  opened.defer(() => refusals.close());
  const payloads = createPayloadThread();
  opened.defer(() => payloads.close());
  const readBody = boundedBodies(hookBodies?.limits, hookBodies?.now);
  addPlainRoutes(server, hookEndpoint({ ...store, refusals, payloads, isBehindProxy, readBody }));
  const keys = await openSigningKeys({
    ...store,
    now,
    onError: (error) => log.error({ err: error }, 'replacing the key that signs tokens of builds failed'),
  });
  opened.defer(() => keys.close());
  addPlainRoutes(server, identityDocuments({ keys, issuer: origin }));
  const dispatch = await createDispatch({
    ...store,
    log,
    identity: createIdentity({ keys, issuer: origin, now }),
    api: () => apiFor(config, { tls, address: addressOf(config, server.server.address()), origin: origin() }),
    limits: limitsOf(config),
    unpacked: unpackLimitsOf(config),
    artifacts: { mostFiles: mostArtifacts, mostBytes: config.artifact_size * 1024 * 1024 },
    cacheBytes: config.cache_size * 1024 * 1024,
    logBytes: config.log_size * 1024 * 1024,
    accountConcurrency: config.account_concurrency,
    configure: configuringFrom(routes, store, config.base_url ?? ''),
    translate: translateWith(log),
    onLogStored: (bytes) => metrics.logged(bytes),
  });
  const identify: RunnerRoutes['identify'] = ({ headers }) => authenticateRunner(store.db, headers);
  addPlainRoutes(server, runnerRoutes({ dispatch, identify }));
  opened.defer(() => dispatch.close());
  // From here on nothing extends the claims.
  opened.defer(async () => {
    if (state.leavesRunner) await dispatch.holderLeaves(localHolder(config));
  });
  const socket = await openServerSocket(config, dispatch, log);
  opened.defer(() => socket.close());
  opened.defer(() => server.close());
  opened.defer(() => dispatch.letGo());
  await listenOn(server, isSocketPath(config.host) ? { path: config.host } : { host: config.host, port: config.port });
  const address = addressOf(config, server.server.address());
  const sender = await startSender({
    ...store,
    name: `server ${hostname()}:${config.data_dir}`,
    retryPolicy: { ...retryPolicy, ...webhooks.retryPolicy },
    callRules,
    origin: origin(),
    attempted: (outcome) => metrics.called(outcome),
    onError: (error) => log.error({ err: error }, 'webhook delivery failed'),
  });
  opened.defer(() => sender.close());
  const forgeUpkeep = startForgeUpkeep({
    ...store,
    paceMs: forgePaceMs,
    onError: (error) => log.error({ err: error }, 'checking the forges failed'),
  });
  opened.defer(() => forgeUpkeep.close());
  if (store.mailer) {
    const telling = startTellingOfTokens({
      db: store.db,
      mailer: store.mailer,
      origin: publicUrl(config.base_url, address),
      onError: (error) => log.error({ err: error }, 'telling users of tokens that end failed'),
    });
    opened.defer(() => telling.close());
  }
  await forgetSilence(store.db, issuerOf?.issuer);
  if (issuer) {
    const looks = startLooks({
      ...store,
      issuer,
      onError: (error) => log.error({ err: error }, 'asking the issuer about a user failed'),
    });
    opened.defer(() => looks.close());
  }
  const schedules = startScheduleClock({
    ...store,
    now,
    onError: (error) => log.error({ err: error }, 'running schedules failed'),
  });
  opened.defer(() => schedules.close());
  const upkeep = startUpkeep({ store, config, log, onTask: metrics.cleanedUp });
  opened.defer(() => upkeep.stop());

  const local = localHeartbeats(store.db, localHolder(config), { tags: config.tags });
  const unnoted = (error: unknown): void => {
    if (!isClosed) log.error({ err: error }, 'recording the state of the local runner failed');
  };
  let isClosed = false;
  const running = opened.move();
  return {
    address,
    localRunnerFails: (reason) => void local.failing(reason).catch(unnoted),
    localRunnerStopped: () => local.stopped().catch(unnoted),
    async retireLocalRunner(signal) {
      await dispatch.quiet(localHolder(config));
      await dispatch.untilIdle(localHolder(config), signal);
    },
    async drain(signal) {
      state.isDraining = true;
      await dispatch.quiet();
      await dispatch.untilIdle(localHolder(config), signal);
    },
    async leaveLocalRunner() {
      await dispatch.quiet(localHolder(config));
      state.leavesRunner = await dispatch.isBusy(localHolder(config));
      return state.leavesRunner;
    },
    localRunnerGone: () => {
      local.starting().catch(unnoted);
      dispatch.holderGone(localHolder(config)).catch((error: unknown) => {
        if (isClosed) return; // the runner stopped with the server, and the next one finds its claims
        log.error({ err: error }, 'releasing claims of the local runner failed; they expire automatically');
      });
    },
    close() {
      isClosed = true;
      return running.disposeAsync();
    },
  };
}

/**
 * Counts the builds that this server ends, so each build counts once across all servers. Returns a function that stops
 * it.
 */
function countBuilds({ db, observers }: CallDeps, metrics: Metrics): () => void {
  return watchEndings(observers, ({ trx }, ending) => {
    if (ending.type !== 'build') return;
    const { state, created_at: createdAt, started_at: startedAt, finished_at: finishedAt } = ending;
    const endedAt = finishedAt ?? createdAt;
    const waitedMs = Number((startedAt ?? endedAt) - createdAt);
    const tookMs = startedAt === null ? undefined : Number(endedAt - startedAt);
    db.afterCommit(trx, () => metrics.built(state, { waitedMs, tookMs }));
  });
}

/** A load balancer with health checks then sends requests elsewhere. */
function orDraining(
  state: { isDraining: boolean },
  problem: () => Promise<string | undefined>,
): () => Promise<string | undefined> {
  return async () => (state.isDraining ? 'the server is stopping and accepts no more work' : problem());
}

/** Each server on a shared database has its own runner. The next server on the same folder takes it over. */
function localHolder({ data_dir: dataDir }: Config): string {
  return `local ${hostname()} ${dataDir}`;
}

/** Access to the data folder is access to this socket. */
async function openServerSocket(
  config: Config,
  dispatch: RunnerRoutes['dispatch'],
  log: FastifyBaseLogger,
): Promise<{ close(): Promise<void> }> {
  const socket = createServer({ endpoints: [], log, translate: translateWith(log) });
  const identify = async () => ({ holder: localHolder(config) });
  addPlainRoutes(socket, runnerRoutes({ dispatch, identify }));
  const path = socketPath(config.data_dir, 'server.sock');
  await rm(path, { force: true }); // a server that died could not remove it
  await socket.listen({ path });
  return socket;
}
