/* oxlint-disable no-control-regex -- control characters are what this is about */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { ownCertificate } from '../../src/http/certificate.ts';
import { temporaryFolder } from '../support/databases.ts';
import { Developer } from '../support/developer.ts';

const token = 'hrt_kingfisher-kingfisher-kingfisher-kingfisher';
const escape = '\u001b[2J\u001b]0;owned\u0007\u202e\u009b6n';

describe('a server that means harm', () => {
  const folder = temporaryFolder();
  let server: https.Server;
  let developer: Developer;
  let answer: http.RequestListener = (_, response) => response.end();
  before(async () => {
    server = https.createServer(await ownCertificate(folder), (request, response) => answer(request, response));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const ca = join(folder, 'tls', 'cert.pem');
    developer = new Developer({
      HEADRACE_URL: `https://127.0.0.1:${port}`,
      HEADRACE_TOKEN: token,
      HEADRACE_CA_FILE: ca,
    });
    assert.ok(readFileSync(ca));
  });
  after(() => {
    server.close();
    server.closeAllConnections();
  });

  const says = (body: unknown, status = 200): void => {
    answer = (_, response) => {
      response.writeHead(status, {
        'content-type': 'application/json',
        'x-request-id': escape.replaceAll(/[^ -~]/g, ''),
      });
      response.end(JSON.stringify(body));
    };
  };

  test('cannot send the token on to another', async () => {
    const asked: string[] = [];
    const other = http.createServer(({ headers }, response) => {
      asked.push(JSON.stringify(headers));
      response.end('{}');
    });
    other.listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as AddressInfo;
    for (const status of [301, 302, 303, 307, 308]) {
      answer = (_, response) => response.writeHead(status, { location: `http://127.0.0.1:${port}/projects` }).end();
      const { status: ended, err, out } = await developer.run(['projects']);
      assert.deepEqual([ended, out], [3, '']);
      assert.match(err, /sends its callers to http:\/\/127\.0\.0\.1:\d+\. If that is your server, sign in there/);
    }
    assert.deepEqual(asked, []);
    other.close();
  });

  test('says nothing to a terminal, in names, errors or JSON', async () => {
    const project = {
      id: 1,
      id_str: '1',
      name: `a${escape}`,
      repository_url: escape,
      clone_url: escape,
      build_state: escape,
      owned: true,
    };
    says({ response: [project] });
    for (const args of [['projects'], ['projects', '--json'], ['projects', '--plain']]) {
      const terminal = developer.sit(args, { env: { NO_COLOR: '1' } });
      assert.equal(await terminal.end(), 0);
      assert.doesNotMatch(terminal.raw, /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202e]/, args.join(' '));
    }
    says({ error: { [escape]: [escape], generic: [escape] } }, 403);
    const refused = await developer.run(['projects', '--verbose']);
    assert.equal(refused.status, 2);
    assert.doesNotMatch(refused.err, /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/);
  });

  test('is not believed when it answers nonsense, and no token is told', async () => {
    const nonsense: [http.RequestListener, RegExp][] = [
      [(_, response) => response.end('<html>'), /not Headrace\. Check the address/],
      [(_, response) => response.end('{}'), /not Headrace/],
      [(_, response) => response.writeHead(500).end(token), /The server failed \(500\)/],
      [(request) => request.socket.destroy(), /the connection broke/],
    ];
    for (const [listener, message] of nonsense) {
      answer = listener;
      const { status, out, err } = await developer.run(['whoami']);
      assert.deepEqual([status, out], [3, '']);
      assert.match(err, message);
      assert.ok(!err.includes(token));
    }
  });
});
