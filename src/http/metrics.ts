import type { ConnectionWatcher } from './connections.ts';
import { Histogram } from './histogram.ts';
import { addProcessMetrics, watchEventLoop } from './process-metrics.ts';
import { Counter, Gauge, Registry } from './prometheus.ts';

/** What the operator's Prometheus reads. Labels have few values that are known beforehand, and never names of others. */
export interface Metrics {
  answered(status: number, milliseconds: number): void;
  /** Counts a webhook call. */
  called(outcome: 'delivered' | 'failed'): void;
  /** Counts a build that is over. `tookMs` is missing where it never began. */
  built(state: string, times: { waitedMs: number; tookMs?: number | undefined }): void;
  /** Counts bytes that were added to logs. */
  logged(bytes: number): void;
  /** How long the database took. */
  database: Record<DatabaseOperation, (milliseconds: number) => void>;
  /** How long the store of blobs took. */
  blobs: Record<BlobOperation, (milliseconds: number) => void>;
  connections: ConnectionWatcher;
  /** In Prometheus's text format, with the current gauges. */
  text(now: { connections: number; work?: WorkGauges | undefined }): Promise<string>;
  readonly contentType: string;
  close(): void;
}

export type DatabaseOperation = 'read' | 'transaction';
export type BlobOperation = 'put' | 'open' | 'read' | 'remove';

/** The state of the queue, and the number of runners by state. */
export interface WorkGauges {
  waiting: number;
  oldestSeconds: number;
  /** By kind of job. */
  running: Record<string, number>;
  runners: { idle: number; busy: number; away: number; failing: number };
}

const quick = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10];
const quicker = [0.0001, 0.0003, ...quick];
const long = [0.3, 1, 3, 10, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400];

export function createMetrics({ buildStates = [] }: { buildStates?: readonly string[] } = {}): Metrics {
  const registry = new Registry();
  const count = counters(registry);
  const statuses = new Map<number, number>();
  const answers = new Counter({
    name: 'headrace_http_requests_total',
    help: 'Requests answered, by status',
    labelNames: ['status'],
    registers: [registry],
  });
  const requests = histogram(registry, 'headrace_http_request_seconds', 'Time from a request to its answer', quick);
  const calls = count('headrace_webhook_calls_total', 'Calls of webhooks, by what came of them', {
    outcome: ['delivered', 'failed'],
  });
  const connections = new Gauge({
    name: 'headrace_connections',
    help: 'Connections at this moment',
    registers: [registry],
  });
  const refused = count(
    'headrace_connections_refused_total',
    'Connections for which there was no room, at all or for their network',
    { reason: ['full', 'network'] },
  );
  const ended = count(
    'headrace_connections_ended_total',
    'Connections closed for what did not come in time, or to make room',
    { reason: ['handshake', 'head', 'body', 'room'] },
  );
  const builds = count('headrace_builds_total', 'Builds that ended, by state', { state: buildStates });
  const took = histogram(registry, 'headrace_build_seconds', 'Time from the start of a build to its end', long);
  const waited = histogram(registry, 'headrace_build_wait_seconds', 'Time that a build waited for a runner', long);
  const logBytes = new Counter({
    name: 'headrace_log_bytes_total',
    help: 'Bytes added to logs',
    registers: [registry],
  });
  const database = new Histogram<DatabaseOperation>({
    name: 'headrace_database_seconds',
    help: 'Time that the database took for a query that reads, or for a transaction until it was durable',
    bounds: quicker,
    label: { name: 'operation', values: ['read', 'transaction'] },
    registry,
  });
  const blobs = new Histogram<BlobOperation>({
    name: 'headrace_blob_seconds',
    help: 'Time that the store of blobs took; of a put, with the wait for its content',
    bounds: quicker,
    label: { name: 'operation', values: ['put', 'open', 'read', 'remove'] },
    registry,
  });
  const unwatch = watchEventLoop(registry);
  addProcessMetrics(registry);
  const work = workGauges();

  return {
    contentType: registry.contentType,
    answered(status, milliseconds) {
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      requests(milliseconds);
    },
    called: (outcome) => calls.inc({ outcome }),
    built(state, { waitedMs, tookMs }) {
      builds.inc({ state });
      waited(waitedMs);
      if (tookMs !== undefined) took(tookMs);
    },
    logged: (bytes) => logBytes.inc(bytes),
    database: { read: database.of('read'), transaction: database.of('transaction') },
    blobs: { put: blobs.of('put'), open: blobs.of('open'), read: blobs.of('read'), remove: blobs.of('remove') },
    connections: {
      refused: (reason) => refused.inc({ reason }),
      ended: (reason) => ended.inc({ reason }),
    },
    async text(now) {
      connections.set(now.connections);
      answers.reset();
      for (const [status, number] of statuses) answers.inc({ status }, number);
      const own = await registry.metrics();
      return now.work ? `${own}\n${await work(now.work)}` : own;
    },
    close: unwatch,
  };
}

/** Makes counters that begin at 0 for every value of their label: a rate needs to see where they began. */
function counters(registry: Registry) {
  return (name: string, help: string, labels: Record<string, readonly string[]>) => {
    const counter = new Counter({ name, help, labelNames: Object.keys(labels), registers: [registry] });
    for (const [label, values] of Object.entries(labels))
      for (const value of values) counter.inc({ [label]: value }, 0);
    return counter;
  };
}

function histogram(registry: Registry, name: string, help: string, bounds: readonly number[]) {
  return new Histogram({ name, help, bounds, registry }).of('');
}

/** Apart from the others: without the database they are left out, because an old value would be taken for a new one. */
function workGauges(): (work: WorkGauges) => Promise<string> {
  const registry = new Registry();
  const gauge = <Label extends string>(name: string, help: string, ...labelNames: Label[]) =>
    new Gauge({ name, help, labelNames, registers: [registry] });
  const waiting = gauge('headrace_queue_waiting', 'Pieces of work that no runner has begun');
  const oldest = gauge('headrace_queue_oldest_seconds', 'How long the oldest of them has waited');
  const running = gauge('headrace_queue_running', 'Pieces of work that runners have begun, by kind', 'kind');
  const runners = gauge('headrace_runners', 'Runners that are known, by their state', 'state');
  return async (work) => {
    waiting.set(work.waiting);
    oldest.set(work.oldestSeconds);
    for (const [kind, number] of Object.entries(work.running)) running.set({ kind }, number);
    for (const [state, number] of Object.entries(work.runners)) runners.set({ state }, number);
    return registry.metrics();
  };
}
