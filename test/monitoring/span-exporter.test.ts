import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { openSpanExporter, type ClosableTracer } from '../../src/server/tracing/span-exporter.ts';
import { newSpanId, newTraceId } from '../../src/shared/lib/trace-context.ts';
import { startCollector, type Collector } from '../support/collector.ts';
import { longestWait } from '../support/pauses.ts';

/** Opens it with these variables alone; the SDK itself looks at the process's. */
async function open(
  env: Record<string, string>,
): Promise<{ tracer: ClosableTracer; troubles: (string | undefined)[] }> {
  for (const name of Object.keys(process.env).filter((one) => one.startsWith('OTEL_'))) delete process.env[name];
  Object.assign(process.env, env);
  const troubles: (string | undefined)[] = [];
  const onTrouble = (reason: string | undefined): void => void troubles.push(reason);
  const tracer = await openSpanExporter({ env: process.env, version: '1.2.3', onTrouble });
  return { tracer: tracer ?? assert.fail('nothing is traced'), troubles };
}

const span = (traceId = newTraceId()) => ({
  name: 'command',
  context: { traceId, spanId: newSpanId(), isSampled: true },
  startedAt: Date.now() - 5,
  endedAt: Date.now(),
  attributes: {},
});

const secret = { OTEL_EXPORTER_OTLP_HEADERS: 'authorization=hush' };

describe('spans', () => {
  test('go out as protobuf unless JSON is asked for', async () => {
    const collector = await startCollector();
    const { OTEL_EXPORTER_OTLP_PROTOCOL: _, ...env } = collector.env;
    const { tracer } = await open(env);
    const traceId = newTraceId();
    tracer.end(span(traceId));
    await tracer.close();
    const [request] = collector.requests;
    assert.equal(request?.headers['content-type'], 'application/x-protobuf');
    assert.ok(request?.body.includes(Buffer.from(traceId, 'hex')) && request.body.includes('command'));
    await collector.close();
  });

  test('are kept as the sampler says', async () => {
    const collector = await startCollector();
    const traces = Array.from({ length: 200 }, newTraceId);
    const kept = async (sampler: string, argument: string, parentIsSampled?: boolean): Promise<number> => {
      const { tracer } = await open({
        ...collector.env,
        OTEL_TRACES_SAMPLER: sampler,
        OTEL_TRACES_SAMPLER_ARG: argument,
      });
      const parentOf = (traceId: string) =>
        parentIsSampled === undefined ? undefined : { traceId, spanId: newSpanId(), isSampled: parentIsSampled };
      const count = traces.filter((traceId) => tracer.isSampled(traceId, parentOf(traceId))).length;
      await tracer.close();
      return count;
    };
    assert.deepEqual([await kept('', ''), await kept('', '', true), await kept('', '', false)], [200, 200, 0]);
    assert.deepEqual([await kept('always_off', ''), await kept('always_on', '', false)], [0, 200]);
    assert.equal(await kept('parentbased_traceidratio', '0', true), 200);
    const half = await kept('parentbased_traceidratio', '0.5');
    assert.ok(half > 50 && half < 150, `${half}`);
    await collector.close();
  });

  /** Ends many spans and says how long that took in all, and how many more than the queue holds were kept. */
  const flood = (tracer: ClosableTracer): number => {
    const beganAt = process.cpuUsage();
    for (let count = 0; count < 20_000; count += 1) tracer.end(span());
    const { user, system } = process.cpuUsage(beganAt);
    return (user + system) / 1000;
  };
  const collectors: [
    string,
    () => Promise<Collector | { url: string; env: Record<string, string>; close?: undefined }>,
  ][] = [
    ['is away', async () => ({ url: '', env: { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1' } })],
    ['never answers', () => startCollector(() => {})],
    [
      'answers garbage',
      () => startCollector((response) => void response.writeHead(200).end(Buffer.alloc(100_000, 0xff))),
    ],
    ['refuses everything', () => startCollector((response) => void response.writeHead(403).end('hush'))],
    ['breaks off', () => startCollector((response) => void response.destroy())],
  ];
  for (const [what, start] of collectors) {
    test(`hold nobody up where the collector ${what}`, { timeout: longestWait }, async () => {
      const collector = await start();
      const { tracer, troubles } = await open({
        ...collector.env,
        ...secret,
        OTEL_BSP_SCHEDULE_DELAY: '20',
        OTEL_EXPORTER_OTLP_TIMEOUT: '1000',
        OTEL_BSP_EXPORT_TIMEOUT: '1000',
      });
      assert.ok(flood(tracer) < 10_000);
      const beganAt = performance.now();
      await tracer.close();
      assert.ok(performance.now() - beganAt < 60_000, 'the end does not wait for it');
      assert.ok(troubles.length <= 1, 'it is said once');
      assert.ok(!JSON.stringify(troubles).includes('hush'));
      await collector.close?.();
    });
  }

  test('are dropped where the queue is full, and go out again when the collector is back', async () => {
    let isBroken = true;
    const collector = await startCollector((response) => void response.writeHead(isBroken ? 400 : 200).end());
    const { tracer, troubles } = await open({
      ...collector.env,
      OTEL_BSP_MAX_QUEUE_SIZE: '100',
      OTEL_BSP_MAX_EXPORT_BATCH_SIZE: '50',
    });
    flood(tracer);
    while (troubles.length === 0) await new Promise((resolve) => setImmediate(resolve));
    const held = collector.spans().length;
    isBroken = false;
    const last = newTraceId();
    const hasCome = (): boolean => collector.spans().some(({ traceId }) => traceId === last);
    for (const until = performance.now() + longestWait; performance.now() < until && !hasCome();) {
      tracer.end(span(last));
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    await tracer.close();
    assert.ok(held <= 200, `${held} of 20000 were held`);
    assert.ok(hasCome());
    assert.deepEqual(troubles, ['400', undefined]);
    await collector.close();
  });
});
