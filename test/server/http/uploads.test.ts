import assert from 'node:assert/strict';
import { once } from 'node:events';
import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { test } from 'node:test';
import { arriving } from '../../../src/server/http/uploads.ts';

test('a body that broke off before anybody read it is not waited for', async () => {
  const request = new IncomingMessage(new Socket());
  request.destroy();
  await once(request, 'close');
  await assert.rejects(arriving(request).next(), { message: 'generic: invalid_format' });
});
