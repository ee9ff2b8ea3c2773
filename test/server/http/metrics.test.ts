import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { pino } from 'pino';
import { createMetrics } from '../../../src/server/http/metrics.ts';
import type { Endpoint } from '../../../src/server/http/route.ts';
import { createServer } from '../../../src/server/http/server.ts';

describe('the metrics', () => {
  const closing: (() => Promise<void>)[] = [];
  after(async () => {
    for (const close of closing) await close();
  });

  test('say how long requests took, whatever the log is told', async () => {
    const metrics = createMetrics();
    const endpoint = (path: string, perform: Endpoint['perform']): Endpoint => ({
      method: 'GET',
      path,
      access: 'none',
      scope: 'none',
      summary: '',
      status: 200,
      answer: { type: 'string' },
      admit: () => undefined,
      perform,
    });
    const slowMs = 50;
    const server = createServer({
      endpoints: [
        endpoint('/slow', async () => {
          await pause(slowMs);
          return { record: 'done' };
        }),
        endpoint('/wrong', async () => {
          await pause(slowMs);
          throw new Error('a failure');
        }),
      ],
      log: pino({ level: 'silent' }),
      translate: () => undefined,
      onAnswered: (status, milliseconds) => metrics.answered(status, milliseconds),
    });
    closing.push(() => server.close());
    for (const [url, status] of [
      ['/slow', 200],
      ['/wrong', 500],
      ['/none', 400],
    ] as const) {
      assert.equal((await server.inject(url)).statusCode, status);
    }
    const text = await metrics.text({ connections: 0 });
    metrics.close();
    const sum = Number(/^headrace_http_request_seconds_sum (\S+)$/m.exec(text)?.[1]);
    // Timers may be a millisecond early.
    assert.ok(sum >= (2 * slowMs - 2) / 1000 && sum < 30, text);
    // The one that does not wait is in it too, unless the machine is busy.
    assert.match(text, /^headrace_http_request_seconds_bucket\{le="0\.03"\} [01]$/m);
    assert.match(text, /^headrace_http_request_seconds_count 3$/m);
  });
});
