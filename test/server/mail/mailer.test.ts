import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { createMailer, type Mailer } from '../../../src/server/mail/mailer.ts';
import { createTlsTrust } from '../../../src/shared/lib/tls-trust.ts';
import { temporaryFolder } from '../../support/folders.ts';
import { MailServer } from '../../support/mail-server.ts';
import { copyCertificate } from '../../support/templates.ts';

const folder = temporaryFolder();
copyCertificate(folder);
const tls = { cert: join(folder, 'tls', 'cert.pem'), key: join(folder, 'tls', 'key.pem') };
const letter = {
  to: 'ada@example.org',
  subject: 'Failed:\r\nBcc: eve@example.org',
  text: 'héllo',
  html: '<p>héllo</p>',
};
const waits = new AbortController().signal;

const mailer = (url: string, own: { trusted?: boolean; answerWithin?: number } = {}): Mailer =>
  createMailer({
    url,
    from: 'Headrace <ci@example.org>',
    trust: createTlsTrust(own.trusted ? tls.cert : undefined),
    answerWithin: own.answerWithin ?? 60_000,
  });

describe('the mailer', () => {
  const servers: MailServer[] = [];
  after(() => Promise.all(servers.map((server) => server[Symbol.asyncDispose]())));
  async function serve(...options: Parameters<typeof MailServer.start>): Promise<MailServer> {
    const server = await MailServer.start(...options);
    servers.push(server);
    return server;
  }

  test('sends a letter with both forms, and no header that a subject brings', async () => {
    const server = await serve();
    assert.deepEqual((await mailer(server.url).send(letter, waits)).status, 250);
    const [sent] = await server.letters(1);
    assert.equal(sent?.headers.get('from'), 'Headrace <ci@example.org>');
    assert.equal(sent?.headers.get('subject'), 'Failed: Bcc: eve@example.org');
    assert.equal(sent?.headers.has('bcc'), false);
    assert.match(sent?.headers.get('content-type') ?? '', /^multipart\/alternative/);
  });

  test('uses STARTTLS and TLS, and only with a certificate that it trusts', async () => {
    for (const isSecure of [false, true]) {
      const server = await serve({ ...tls, isSecure });
      const refused = await mailer(server.url).send(letter, waits);
      assert.equal(refused.status, null);
      assert.match(refused.error, /self-signed|certificate/);
      const taken = await mailer(server.url, { trusted: true }).send(letter, waits);
      assert.equal(taken.status, 250, taken.error);
      assert.equal((await server.letters(1)).length, 1);
    }
  });

  test('gives no credentials to a server without TLS', async () => {
    const heard: string[] = [];
    const server = createServer((socket) => {
      socket.write('220 hello\r\n');
      socket.on('error', () => {});
      socket.on('data', (bytes) => {
        heard.push(String(bytes));
        socket.write(String(bytes).startsWith('EHLO') ? '250-here\r\n250 AUTH PLAIN LOGIN\r\n' : '502 not known\r\n');
      });
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    after(() => server.close());
    const { port } = server.address() as AddressInfo;
    const result = await mailer(`smtp://ci:s3cret@127.0.0.1:${port}`, { trusted: true }).send(letter, waits);
    assert.notEqual(result.status, 250);
    assert.ok(!heard.join('').includes('AUTH'), heard.join(''));
    assert.ok(!JSON.stringify(result).includes('s3cret'));
  });

  test('gives up on a server that never answers, and when it closes', async () => {
    const server = createServer((socket) => void socket.on('error', () => {}));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    after(() => server.close());
    const url = `smtp://127.0.0.1:${(server.address() as AddressInfo).port}`;
    assert.match((await mailer(url, { answerWithin: 100 }).send(letter, waits)).error, /within|timeout/i);
    const closing = new AbortController();
    const sent = mailer(url).send(letter, closing.signal);
    await once(server, 'connection');
    closing.abort(new Error('the server closes'));
    assert.equal((await sent).error, 'the server closes');
  });

  test('passes on what the server says', async () => {
    const server = createServer((socket) => {
      socket.write('220 hello\r\n');
      socket.on('error', () => {});
      socket.on('data', (bytes) => {
        const line = String(bytes);
        if (line.startsWith('RCPT')) socket.write('550 5.1.1 no such mailbox\r\n');
        else socket.write('250 fine\r\n');
      });
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    after(() => server.close());
    const url = `smtp://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const { status, answer } = await mailer(url).send(letter, waits);
    assert.deepEqual([status, answer], [550, '550 5.1.1 no such mailbox']);
  });
});
