import { createRequire } from 'node:module';
import type * as promClient from 'prom-client';

/**
 * The parts of prom-client that are used here. Its entry point also loads the metrics that it offers by default, and with
 * them OpenTelemetry and more: seven megabytes in a process that needs less than one of them.
 */
const load = createRequire(import.meta.url);

export const Counter = load('prom-client/lib/counter.js') as typeof promClient.Counter;
export const Gauge = load('prom-client/lib/gauge.js') as typeof promClient.Gauge;
export const Registry = load('prom-client/lib/registry.js') as typeof promClient.Registry;
export type Registry = promClient.Registry;
export type Metric = promClient.Metric;
