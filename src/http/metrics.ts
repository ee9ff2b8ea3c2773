import type { ConnectionWatcher } from './connections.ts';

/** Counters for an operator's Prometheus. Written by hand because they run on every request: a few additions. */
export interface Metrics {
  answered(status: number, milliseconds: number): void;
  /** Counts a webhook call. */
  called(outcome: 'delivered' | 'failed'): void;
  connections: ConnectionWatcher;
  /** In Prometheus's text format, with the current gauges. */
  text(now: { connections: number; work?: WorkGauges | undefined }): string;
  readonly contentType: string;
}

/** The state of the queue, and the number of runners by state. */
export interface WorkGauges {
  waiting: number;
  oldestSeconds: number;
  /** By kind of job. */
  running: Record<string, number>;
  runners: { idle: number; busy: number; away: number; failing: number };
}

const buckets = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10];

export function createMetrics(): Metrics {
  const requests = new Map<number, number>();
  const calls = { delivered: 0, failed: 0 };
  const refused = { full: 0, network: 0 };
  const ended = { handshake: 0, head: 0, body: 0, room: 0 };
  const within = buckets.map(() => 0);
  let count = 0;
  let total = 0;

  return {
    contentType: 'text/plain; version=0.0.4; charset=utf-8',
    answered(status, milliseconds) {
      requests.set(status, (requests.get(status) ?? 0) + 1);
      const seconds = milliseconds / 1000;
      const bucket = buckets.findIndex((bound) => seconds <= bound);
      if (bucket >= 0) within[bucket] = (within[bucket] ?? 0) + 1;
      count += 1;
      total += seconds;
    },
    called(outcome) {
      calls[outcome] += 1;
    },
    connections: {
      refused: (why) => void (refused[why] += 1),
      ended: (why) => void (ended[why] += 1),
    },
    text(now) {
      let sum = 0;
      const cumulative = buckets.map((bound, at) => `_bucket{le="${bound}"} ${(sum += within[at] ?? 0)}`);
      return [
        family(
          'headrace_http_requests_total',
          'counter',
          'Requests answered, by status',
          Array.from(requests, ([status, number]) => `{status="${status}"} ${number}`),
        ),
        family('headrace_http_request_seconds', 'histogram', 'Time from a request to its answer', [
          ...cumulative,
          `_bucket{le="+Inf"} ${count}`,
          `_sum ${total}`,
          `_count ${count}`,
        ]),
        family(
          'headrace_webhook_calls_total',
          'counter',
          'Calls of webhooks, by what came of them',
          Object.entries(calls).map(([outcome, number]) => `{outcome="${outcome}"} ${number}`),
        ),
        family('headrace_connections', 'gauge', 'Connections at this moment', [` ${now.connections}`]),
        family(
          'headrace_connections_refused_total',
          'counter',
          'Connections for which there was no room, at all or for their network',
          Object.entries(refused).map(([reason, number]) => `{reason="${reason}"} ${number}`),
        ),
        family(
          'headrace_connections_ended_total',
          'counter',
          'Connections closed for what did not come in time, or to make room',
          Object.entries(ended).map(([reason, number]) => `{reason="${reason}"} ${number}`),
        ),
        ...(now.work ? ofWork(now.work) : []),
        ...ofProcess(),
      ].join('');
    },
  };
}

function ofWork({ waiting, oldestSeconds, running, runners }: WorkGauges): string[] {
  return [
    family('headrace_queue_waiting', 'gauge', 'Pieces of work that no runner has begun', [` ${waiting}`]),
    family('headrace_queue_oldest_seconds', 'gauge', 'How long the oldest of them has waited', [` ${oldestSeconds}`]),
    family('headrace_queue_running', 'gauge', 'Pieces of work that runners have begun, by kind', by('kind', running)),
    family('headrace_runners', 'gauge', 'Runners that are known, by their state', by('state', runners)),
  ];
}

function by(label: string, counts: Record<string, number>): string[] {
  return Object.entries(counts).map(([name, count]) => `{${label}="${name}"} ${count}`);
}
/** Read once: the machine's clock may be set, and the start time must not move. */
const startedAt = Date.now() / 1000 - process.uptime();

function ofProcess(): string[] {
  const { user, system } = process.cpuUsage();
  return [
    family('process_cpu_seconds_total', 'counter', 'Processor time used', [` ${(user + system) / 1e6}`]),
    family('process_resident_memory_bytes', 'gauge', 'Memory in use', [` ${process.memoryUsage.rss()}`]),
    family('process_start_time_seconds', 'gauge', 'When the process started', [` ${startedAt.toFixed(3)}`]),
  ];
}

/** Each sample is the text after the name: labels or a suffix, and the value. */
function family(name: string, type: string, help: string, samples: string[]): string {
  const lines = samples.map((sample) => `${name}${sample}\n`);
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines.join('')}`;
}
