import assert from 'node:assert/strict';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import test from 'node:test';
import { openLink } from '../../src/runner/link.ts';
import { temporaryFolder } from '../support/folders.ts';

const patient = new AbortController().signal;

test('an answer that is none of our server is a failed call, and the runner lives on', async (t) => {
  const folder = temporaryFolder();
  const socket = join(folder, 'server.sock');
  let body = '<html>somebody else’s</html>';
  const server = createServer((_, response) => response.end(body)).listen(socket);
  await once(server, 'listening');
  const link = openLink({ socket });
  t.after(() => {
    link.close();
    server.close();
    rmSync(folder, { recursive: true });
  });
  await assert.rejects(link.extend(['claim'], patient), SyntaxError);
  body = '{"words":{}}';
  assert.deepEqual(await link.extend(['claim'], patient), {});
});
