import { monitorEventLoopDelay } from 'node:perf_hooks';
import { Counter, Gauge, type Registry } from './prometheus.ts';

/** Read once: the machine's clock may be set, and the start time must not move. */
const startedAt = Date.now() / 1000 - process.uptime();

/** What every process has, under the names that Prometheus's own libraries use. */
export function addProcessMetrics(registry: Registry): void {
  const registers: [] = [];
  const metrics = [
    new Counter({
      name: 'process_cpu_seconds_total',
      help: 'Processor time used',
      registers,
      collect() {
        const { user, system } = process.cpuUsage();
        this.reset();
        this.inc((user + system) / 1e6);
      },
    }),
    new Gauge({
      name: 'process_resident_memory_bytes',
      help: 'Memory in use',
      registers,
      collect() {
        this.set(process.memoryUsage.rss());
      },
    }),
    new Gauge({
      name: 'process_start_time_seconds',
      help: 'When the process started',
      registers,
      collect() {
        this.set(Math.round(startedAt * 1000) / 1000);
      },
    }),
  ];
  for (const metric of metrics) registry.registerMetric(metric);
}

/** So often it is looked how late the event loop is: a few wake-ups a second, and nothing longer is missed. */
const resolutionMs = 50;
const windowMs = 60_000;
const percentiles = [50, 99, 100];

/**
 * How late the event loop gets to what is due, over the last whole minute: a minute that ends by itself, and not with the
 * next look at the metrics, so that two who look do not take it from each other. Returns what ends the watching.
 */
export function watchEventLoop(registry: Registry): () => void {
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
    help: 'How late the event loop was in the last whole minute, by percentile',
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
