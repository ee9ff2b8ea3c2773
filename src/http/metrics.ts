import { collectDefaultMetrics, Counter, Histogram, Registry } from 'prom-client';

export interface Metrics {
  answered(status: number, milliseconds: number): void;
  text(): Promise<string>;
  readonly contentType: string;
}

/** What an operator's Prometheus reads. */
export function createMetrics(): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const requests = new Counter({
    name: 'headrace_http_requests_total',
    help: 'Requests answered, by status',
    labelNames: ['status'],
    registers: [registry],
  });
  const seconds = new Histogram({
    name: 'headrace_http_request_seconds',
    help: 'Time from a request to its answer',
    buckets: [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10],
    registers: [registry],
  });
  return {
    answered(status, milliseconds) {
      requests.inc({ status });
      seconds.observe(milliseconds / 1000);
    },
    text: () => registry.metrics(),
    contentType: registry.contentType,
  };
}
