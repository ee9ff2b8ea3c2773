import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { describe, test } from 'node:test';
import { connect as connectTls } from 'node:tls';
import { onOneDatabase, placeFor } from '../../support/databases.ts';
import { serve } from '../../support/program.ts';

describe('a server that is asked to stop', () => {
  onOneDatabase((database) => {
    test('does not wait for connections on which nobody asked anything', async () => {
      const { folder, env } = await placeFor(database);
      const server = await serve(database, folder, env);
      const port = Number(new URL(server.address).port);
      const bare = connect({ host: '127.0.0.1', port });
      const secure = connectTls({ host: '127.0.0.1', port, rejectUnauthorized: false });
      await Promise.all([once(bare, 'connect'), once(secure, 'secureConnect')]);
      assert.equal((await server.api.get('/ping')).status, 200);
      for (const socket of [bare, secure]) socket.on('error', () => {});
      const closed = Promise.all([once(bare, 'close'), once(secure, 'close')]);
      server.process.kill('SIGTERM');
      // It would end with 1 if it had given up waiting.
      assert.deepEqual(await server.exited, [0, null]);
      await closed;
      server.api.close();
    });
  });
});
