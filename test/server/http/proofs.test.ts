import assert from 'node:assert/strict';
import { test } from 'node:test';
import Fastify from 'fastify';
import { addPlainRoutes, demandProofs } from '../../../src/server/http/plain-routes.ts';

test('a route that does not say what proves who calls it is not served', () => {
  const server = Fastify();
  demandProofs(server);
  server.get('/said', { config: { provenBy: 'none' } }, async () => 'anything');
  assert.throws(
    () => server.get('/forgotten', async () => 'anything'),
    /GET \/forgotten does not declare how its callers are authenticated/,
  );
});

test('nothing of a body is read before its sender is admitted', async () => {
  const server = Fastify();
  server.decorateRequest('admitted', undefined);
  demandProofs(server);
  const read: string[] = [];
  addPlainRoutes(server, {
    provenBy: 'runner',
    admit: async ({ headers }) => {
      if (headers.authorization !== 'right') throw Object.assign(new Error('a stranger'), { statusCode: 401 });
      return 'known';
    },
    routes: [
      {
        method: 'POST',
        path: '/bare',
        async body(request) {
          read.push(String(request.headers.authorization));
          return request.headers['content-length'];
        },
        handle: async ({ admitted, body }) => ({ status: 202, content: { admitted, body } }),
      },
    ],
  });
  const call = (authorization: string) =>
    server.inject({ method: 'POST', url: '/bare', headers: { authorization }, payload: 'four' });
  assert.equal((await call('wrong')).statusCode, 401);
  const taken = await call('right');
  assert.deepEqual([taken.statusCode, taken.json()], [202, { admitted: 'known', body: '4' }]);
  assert.deepEqual(read, ['right']);
  await server.close();
});
