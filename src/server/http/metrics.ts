import { monitorEventLoopDelay } from 'node:perf_hooks';
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { ConnectionWatcher } from './connections.ts';

/** Labels have few values that are known beforehand, never users' names. */
export interface Metrics {
  answered(status: number, milliseconds: number): void;
  called(outcome: 'delivered' | 'failed'): void;
  /** `tookMs` is missing if the build never began. */
  built(state: string, times: { waitedMs: number; tookMs?: number | undefined }): void;
  logged(bytes: number): void;
  database: Record<DatabaseOperation, (milliseconds: number) => void>;
  blobs: Record<BlobOperation, (milliseconds: number) => void>;
  cleanedUp: (task: string, outcome: CleanupOutcome, milliseconds: number) => void;
  connections: ConnectionWatcher;
  text(now: { connections: number; work?: WorkGauges | undefined }): Promise<string>;
  readonly contentType: string;
  close(): void;
}

export type DatabaseOperation = 'read' | 'transaction';
export type CleanupOutcome = 'done' | 'failed';
export type BlobOperation = 'put' | 'open' | 'read' | 'remove';

export interface WorkGauges {
  waiting: number;
  oldestSeconds: number;
  running: Record<string, number>;
  runners: { idle: number; busy: number; away: number; failing: number };
}

const quick = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10];
const quicker = [0.0001, 0.0003, ...quick];
const long = [0.3, 1, 3, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400];

interface MetricsParts {
  buildStates?: readonly string[];
  upkeepTasks?: readonly string[];
}

export function createMetrics({ buildStates = [], upkeepTasks = [] }: MetricsParts = {}): Metrics {
  const registry = new Registry();
  const registers = [registry];
  /** Counters start at 0 for every label value: a rate needs their start. */
  const counter = (name: string, help: string, label: string, values: readonly string[] = []) => {
    const made = new Counter({ name, help, labelNames: [label], registers });
    for (const value of values) made.inc({ [label]: value }, 0);
    return (value: string | number) => made.inc({ [label]: value });
  };
  const histogram = (name: string, help: string, buckets: number[]) => {
    const made = new Histogram({ name, help, buckets, registers });
    return (milliseconds: number) => made.observe(seconds(milliseconds));
  };
  const byOperation = <Operation extends string>(name: string, help: string, operations: Operation[]) => {
    const made = new Histogram({ name, help, labelNames: ['operation'], buckets: quicker, registers });
    const observers = operations.map((operation) => {
      made.zero({ operation });
      return [operation, (milliseconds: number) => made.observe({ operation }, seconds(milliseconds))];
    });
    return Object.fromEntries(observers) as Record<Operation, (milliseconds: number) => void>;
  };

  const answers = counter('headrace_http_requests_total', 'Requests answered, by status', 'status');
  const requests = histogram('headrace_http_request_seconds', 'Time from a request to its response', quick);
  const builds = counter('headrace_builds_total', 'Builds that ended, by state', 'state', buildStates);
  const took = histogram('headrace_build_seconds', 'Time from the start of a build to its end', long);
  const waited = histogram('headrace_build_wait_seconds', 'Time that a build waited for a runner', long);
  const logBytes = new Counter({ name: 'headrace_log_bytes_total', help: 'Bytes added to logs', registers });
  const connections = new Gauge({ name: 'headrace_connections', help: 'Open connections', registers });
  const work = workGauges();
  collectDefaultMetrics({ register: registry });
  // They have names of counters but are gauges.
  for (const what of ['handles', 'requests', 'resources']) registry.removeSingleMetric(`nodejs_active_${what}_total`);
  const close = watchEventLoop(registry);

  return {
    contentType: registry.contentType,
    answered(status, milliseconds) {
      answers(status);
      requests(milliseconds);
    },
    called: counter('headrace_webhook_calls_total', 'Webhook calls, by outcome', 'outcome', ['delivered', 'failed']),
    built(state, { waitedMs, tookMs }) {
      builds(state);
      waited(waitedMs);
      if (tookMs !== undefined) took(tookMs);
    },
    logged: (bytes) => logBytes.inc(bytes),
    database: byOperation(
      'headrace_database_seconds',
      'Time of a database read, or of a transaction until it was durable',
      ['read', 'transaction'],
    ),
    blobs: byOperation(
      'headrace_blob_seconds',
      'Time of a blob storage operation; a put includes waiting for its content',
      ['put', 'open', 'read', 'remove'],
    ),
    cleanedUp: cleanupMetrics(registry, upkeepTasks),
    connections: {
      refused: counter(
        'headrace_connections_refused_total',
        'Connections refused because a limit was reached: the server’s, or the network’s',
        'reason',
        ['full', 'network'],
      ),
      ended: counter(
        'headrace_connections_ended_total',
        'Connections closed because data came too late, or to free a connection',
        'reason',
        ['handshake', 'head', 'body', 'room'],
      ),
    },
    async text(now) {
      connections.set(now.connections);
      const own = await registry.metrics();
      return now.work ? `${own}\n${await work(now.work)}` : own;
    },
    close,
  };
}

/** Clocks of several servers may differ. */
const seconds = (milliseconds: number): number => Math.max(0, milliseconds / 1000);

function cleanupMetrics(registry: Registry, tasks: readonly string[]): Metrics['cleanedUp'] {
  const registers = [registry];
  const [name, help] = ['headrace_cleanup_runs_total', 'Runs of the hourly cleanup tasks, by outcome'];
  const runs = new Counter({ name, help, labelNames: ['task', 'outcome'], registers });
  for (const task of tasks) for (const outcome of ['done', 'failed']) runs.inc({ task, outcome }, 0);
  const took = new Gauge({
    name: 'headrace_cleanup_seconds',
    help: 'Duration of the last run of a cleanup task',
    labelNames: ['task'],
    registers,
  });
  return (task, outcome, milliseconds) => {
    runs.inc({ task, outcome });
    took.set({ task }, seconds(milliseconds));
  };
}

/** Omitted without the database, because old values would look current. */
function workGauges(): (work: WorkGauges) => Promise<string> {
  const registry = new Registry();
  const gauge = <Label extends string>(name: string, help: string, ...labelNames: Label[]) =>
    new Gauge({ name, help, labelNames, registers: [registry] });
  const waiting = gauge('headrace_queue_waiting', 'Queued jobs');
  const oldest = gauge('headrace_queue_oldest_seconds', 'Waiting time of the oldest queued job');
  const running = gauge('headrace_queue_running', 'Running jobs, by kind', 'kind');
  const runners = gauge('headrace_runners', 'Known runners, by state', 'state');
  return async (work) => {
    waiting.set(work.waiting);
    oldest.set(work.oldestSeconds);
    for (const [kind, number] of Object.entries(work.running)) running.set({ kind }, number);
    for (const [state, number] of Object.entries(work.runners)) runners.set({ state }, number);
    return registry.metrics();
  };
}

/** A few wake-ups a second. No delay longer than this is missed. */
const resolutionMs = 50;
const windowMs = 60_000;
const percentiles = [50, 99, 100];

/** The event loop's delays in the last whole minute, so all readers see the same. Returns a function that ends it. */
function watchEventLoop(registry: Registry): () => void {
  const monitor = monitorEventLoopDelay({ resolution: resolutionMs });
  const delays = (): number[] =>
    percentiles.map((percentile) =>
      monitor.count === 0 ? 0 : Math.max(0, monitor.percentile(percentile) / 1e9 - resolutionMs / 1000),
    );
  let lastWindow: number[] | undefined;
  const timer = setInterval(() => {
    lastWindow = delays();
    monitor.reset();
  }, windowMs).unref();
  const gauge = new Gauge({
    name: 'headrace_event_loop_delay_seconds',
    help: 'Delay of the event loop in the last full minute, by percentile',
    labelNames: ['percentile'],
    registers: [],
    collect() {
      const values = lastWindow ?? delays();
      for (const [at, percentile] of percentiles.entries()) this.set({ percentile }, values[at] ?? 0);
    },
  });
  registry.registerMetric(gauge);
  monitor.enable();
  return () => {
    clearInterval(timer);
    monitor.disable();
  };
}
