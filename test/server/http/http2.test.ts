import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, constants, type ClientHttp2Session, type ClientHttp2Stream } from 'node:http2';
import { before, test } from 'node:test';
import { connect as connectTls } from 'node:tls';
import { basic } from '../../support/client.ts';
import type { TestDatabase } from '../../support/databases.ts';
import { describeWithRunnerOnOne } from '../../support/runner.ts';
import { runningBuild } from '../../support/running-build.ts';
import { describeServiceOnOne, type Service } from '../../support/service.ts';
import type { User } from '../../support/user.ts';
import { longestWait } from '../../support/pauses.ts';

const limit = { timeout: longestWait };
const times = { bodyMs: 1500, bodyBytes: 100 };
const form = { 'content-type': 'application/x-www-form-urlencoded' };

const post = { ':method': 'POST', ...form };

/** How people speak HTTP/2 with a service. */
function over(service: Service, database: TestDatabase, who: () => User) {
  return {
    dial: async (): Promise<ClientHttp2Session> => {
      const session = connect(service.address, { rejectUnauthorized: false });
      session.on('error', () => {});
      await once(session, 'connect');
      database.afterwards(() => session.destroy());
      return session;
    },
    ask: (session: ClientHttp2Session, path: string, headers: Record<string, string> = {}): ClientHttp2Stream =>
      session.request({ ':path': path, authorization: basic(who().credentials), ...headers }),
  };
}

async function heard(stream: ClientHttp2Stream): Promise<{ headers: Record<string, unknown>; text: string }> {
  const [headers] = (await once(stream, 'response')) as [Record<string, unknown>];
  let text = '';
  for await (const chunk of stream.setEncoding('utf8')) text += String(chunk);
  return { headers, text };
}

describeWithRunnerOnOne('over HTTP/2', (service, runner, database) => {
  let alice: User;
  before(async () => {
    alice = await service.user();
  });

  const { dial, ask } = over(service, database, () => alice);

  test('a head that is too large, or names two hosts, is answered like one of HTTP/1.1', limit, async () => {
    const session = await dial();
    const { host } = new URL(service.address);
    const many = Object.fromEntries(Array.from({ length: 300 }, (_, at) => [`x-${at}`, 'y']));
    const asked: [number, Record<string, string>][] = [
      [200, {}],
      [200, many],
      [431, { 'x-long': 'y'.repeat(20_000) }],
      [400, { host: 'elsewhere', ':authority': host }],
      [200, { host, ':authority': host }],
    ];
    for (const [status, headers] of asked) {
      assert.equal((await heard(ask(session, '/ping', headers))).headers[':status'], status);
    }
  });

  test('it is spoken with who asks for it in the handshake, and HTTP/1.1 with everybody else', limit, async () => {
    const { port, hostname: host } = new URL(service.address);
    const spoken: [string[] | undefined, string | false][] = [
      [['h2', 'http/1.1'], 'h2'],
      [['http/1.1'], 'http/1.1'],
      [undefined, false],
    ];
    for (const [protocols, chosen] of spoken) {
      const offer = protocols ? { ALPNProtocols: protocols } : {};
      const socket = connectTls({ host, port: Number(port), rejectUnauthorized: false, ...offer });
      await once(socket, 'secureConnect');
      assert.equal(socket.alpnProtocol, chosen);
      socket.destroy();
    }
    assert.equal((await alice.get('/whoami')).status, 200);
  });

  test('streams are followed beside each other on one connection', limit, async () => {
    const session = await dial();
    const { task, path } = await runningBuild(alice, runner);
    const following = Array.from({ length: 20 }, () => ask(session, `${path}/firehose`));
    await Promise.all(following.map((stream) => once(stream, 'response')));
    const told = Promise.all(
      following.map(async (stream) => {
        let text = '';
        for await (const chunk of stream.setEncoding('utf8')) text += String(chunk);
        return text;
      }),
    );
    const line = 'a line that is said to all of them\n';
    for (let turn = 0; turn < 4; turn += 1) await task.writeLog(line.repeat(2000));
    assert.equal((await heard(ask(session, '/ping'))).text, '{"response":"pong"}');
    await task.exit(0);
    for (const text of await told) {
      const logs = [...text.matchAll(/^event: log\ndata: (.*)$/gm)];
      const said = logs.map(([, data = '']) => (JSON.parse(data) as { text: string }).text).join('');
      assert.ok(said === line.repeat(8000), 'every byte, in order');
      assert.match(text, /event: end\ndata: \{\}\n\n$/);
    }
  });

  test('everything is answered as over HTTP/1.1', limit, async () => {
    const session = await dial();
    const who = await heard(ask(session, '/whoami'));
    assert.deepEqual([who.headers[':status'], who.text], [200, `{"response":{"email":"${alice.email}"}}`]);
    assert.ok(who.headers['x-request-id']);
    // The second time the answer is known already.
    assert.equal((await heard(ask(session, '/whoami'))).text, who.text);
    const refused = await heard(ask(session, '/whoami', { authorization: '' }));
    assert.deepEqual([refused.headers[':status'], refused.text], [401, '{"error":{"generic":["unauthorized"]}}']);
    const odd = await heard(ask(session, '/nothing', { ...post, expect: 'a-miracle' }).end('{'));
    assert.deepEqual([odd.headers[':status'], odd.text], [417, '{"error":{"expect":["invalid_format"]}}']);
    const made = await heard(ask(session, '/projects', post).end('name=second&repository_url=git@example.org:x.git'));
    assert.equal(made.headers[':status'], 201, made.text);
    const [, id = ''] = /"id_str":"(\d+)"/.exec(made.text) ?? [];
    const requests = `/projects/${id}/build_requests`;
    for (let count = 0; count < 2; count += 1) await heard(ask(session, requests, post).end('commit_ref=main'));
    const page = await heard(ask(session, `${requests}?limit=1`));
    assert.ok(String(page.headers.link).startsWith(`<${service.address}${requests}?limit=1&before=`));
    const unreadable = '{"error":{"generic":["invalid_format"]}}';
    for (const body of ['%ff=', 'x'.repeat(3 * 1024 * 1024)]) {
      const wrong = await heard(ask(session, '/projects', post).end(body));
      assert.deepEqual([wrong.headers[':status'], wrong.text], [403, unreadable]);
    }
    const dependency = await alice.createDependency();
    const archive = ask(session, `/dependencies/${dependency.id}/archive`, { ':method': 'POST' });
    const upload = await heard(archive.end(Buffer.alloc(2 * 1024 * 1024)));
    assert.equal(upload.text, '{"error":{"archive":["invalid_format"]}}');
    const packed = await heard(ask(session, '/openapi.json', { 'accept-encoding': 'br' }));
    assert.equal(packed.headers['content-encoding'], 'br');
    const tunnel = session.request({ ':method': 'CONNECT', ':authority': 'x:1' });
    const closed = new Promise((resolve) => tunnel.once('close', resolve).on('error', () => {}));
    await closed;
    assert.equal(tunnel.rstCode, constants.NGHTTP2_REFUSED_STREAM);
    assert.equal((await heard(ask(session, '/ping'))).text, '{"response":"pong"}');
  });
});

// Only here is so little time given: on a busy machine an ordinary request may come in two parts that far from each other.
describeServiceOnOne(
  'a slow body over HTTP/2',
  (service, database) => {
    let alice: User;
    before(async () => {
      alice = await service.user();
    });
    const { dial, ask } = over(service, database, () => alice);

    test('a body that stops coming ends the connection, and one that comes slowly does not', limit, async () => {
      const slow = await dial();
      const dependency = await alice.createDependency();
      const archive = ask(slow, `/dependencies/${dependency.id}/archive`, { ':method': 'POST' });
      const answered = heard(archive);
      const stopped = await dial();
      ask(stopped, '/projects', { ...post, 'content-length': '100' })
        .on('error', () => {})
        .write('name=');
      const writing = setInterval(() => archive.write('x'.repeat(200)), 200);
      await once(stopped, 'close');
      // As long again, and longer than it may take with nothing coming.
      await new Promise((resolve) => setTimeout(resolve, 2 * times.bodyMs));
      clearInterval(writing);
      archive.end();
      assert.equal((await answered).text, '{"error":{"archive":["invalid_format"]}}');
    });
  },
  { connectionTimes: times },
);

describeServiceOnOne(
  'a crowd over HTTP/2',
  (service, database) => {
    test('that follows a stream counts as busy, whatever else it asked', limit, async () => {
      const alice = await service.user();
      const { id } = await alice.createProject();
      const sessions: ClientHttp2Session[] = [];
      const heard: string[] = [];
      for (let number = 0; number < 16; number += 1) {
        const session = connect(service.address, { rejectUnauthorized: false });
        session.on('error', () => {});
        database.afterwards(() => session.destroy());
        sessions.push(session);
        const headers = { authorization: basic(alice.credentials) };
        const stream = session.request({ ':path': `/projects/${id}/firehose`, ...headers });
        stream.on('error', () => {}).on('data', (chunk: Buffer) => heard.push(chunk.toString()));
        await once(stream, 'response');
        const ping = session.request({ ':path': '/ping' }).resume();
        await once(ping, 'end');
      }
      // The connection of the client that speaks for everybody else is idle, and makes room; after that there is none.
      const late = Array.from({ length: 3 }, () => connect(service.address, { rejectUnauthorized: false }));
      await Promise.all(
        late.map((session) => new Promise((resolve) => session.on('error', resolve).once('close', resolve))),
      );
      assert.ok(sessions.every((session) => !session.closed && !session.destroyed));
      sessions.pop()?.destroy();
      while ((await alice.api.get('/ping').catch(() => undefined))?.status !== 200);
      await alice.requestBuild({ id } as never);
      while (heard.filter((text) => text.includes('build_request')).length < sessions.length) {
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    });
  },
  { settings: { connections: '16' } },
);
