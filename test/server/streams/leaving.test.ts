import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, test } from 'node:test';
import { pino } from 'pino';
import { createServer } from '../../../src/server/http/server.ts';
import type { Endpoint } from '../../../src/server/http/route.ts';

/** A stream that says one word and then waits to be left. */
function endless(): { endpoint: Endpoint; left: Promise<string> } {
  const { promise: left, resolve } = Promise.withResolvers<string>();
  async function* words(signal: AbortSignal): AsyncGenerator<string> {
    try {
      yield 'word';
      await once(signal, 'abort').catch(() => {});
    } finally {
      resolve(signal.aborted ? 'told' : 'not told');
    }
  }
  const endpoint: Endpoint = {
    method: 'GET',
    path: '/words',
    access: 'none',
    scope: 'none',
    summary: '',
    status: 200,
    answer: {},
    streams: ['text/plain'],
    admit: () => undefined,
    perform: async (_request, _admitted, signal = AbortSignal.abort()) => ({
      stream: { contentType: 'text/plain', body: words(signal) },
    }),
  };
  return { endpoint, left };
}

async function listening(endpoint: Endpoint) {
  const server = createServer({
    endpoints: [endpoint],
    log: pino({ level: 'silent' }),
    translate: () => undefined,
  });
  const address = await server.listen({ host: '127.0.0.1', port: 0 });
  return { server, address };
}

describe('a stream', () => {
  test('is left off when its reader goes', async () => {
    const { endpoint, left } = endless();
    const { server, address } = await listening(endpoint);
    const reader = new AbortController();
    const answer = await fetch(`${address}/words`, { signal: reader.signal });
    assert.equal(answer.headers.get('x-accel-buffering'), 'no');
    reader.abort();
    assert.equal(await left, 'told');
    await server.close();
  });

  test('does not keep a server from stopping', async () => {
    const { endpoint, left } = endless();
    const { server, address } = await listening(endpoint);
    const answer = await fetch(`${address}/words`);
    await server.close();
    assert.equal(await left, 'told');
    assert.equal(await answer.text(), 'word');
  });
});
