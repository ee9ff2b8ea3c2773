import assert from 'node:assert/strict';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { connect } from 'node:tls';
import { hasOwnName } from '../../../src/server/http/strict-transport.ts';
import { run } from '../../../src/shared/lib/processes.ts';
import { temporaryFolder } from '../../support/databases.ts';
import { describeServiceOnOne, type Service } from '../../support/service.ts';

const header = 'strict-transport-security';
const year = 'max-age=31536000';

/** Every kind of answer: known, new, a page, a file, an error, a redirect, a stream. */
async function answersOf(service: Service, headers: Record<string, string> = {}): Promise<(string | undefined)[]> {
  const alice = await service.user();
  const project = await alice.createProject();
  const as = alice.credentials;
  const asked = { as, headers };
  const paths = ['/ping', '/whoami', '/whoami', '/whoami', '/projects', '/nothing', '/%', '/ui/', '/ui/sign-in'];
  paths.push('/openapi.json', '/healthz', '/metrics', '/oauth2/authorize', '/oauth2/access_token', '/?callback=1');
  paths.push(
    `/projects/${project.id}`,
    `/projects/${project.id}/firehose`,
    '/projects/1',
    '/runner/connection',
    '/a?%',
  );
  const answers = [];
  for (const path of paths) answers.push(await service.api.get(path, asked));
  answers.push(await service.api.get('/whoami', { headers }));
  answers.push(await service.api.post('/projects', { ...asked, json: '{' }));
  answers.push(await service.api.post('/oauth2/access_token', { ...asked, form: {} }));
  return answers.map((answer) => answer.headers[header]);
}

/** What comes back for bytes that are no request. */
async function toNonsense(service: Service): Promise<string> {
  const socket = connect({ host: '127.0.0.1', port: Number(new URL(service.address).port), rejectUnauthorized: false });
  await once(socket, 'secureConnect');
  socket.write('nonsense\r\n\r\n');
  let said = '';
  for await (const chunk of socket) said += String(chunk);
  return said;
}

describeServiceOnOne(
  'a service with a name of its own',
  (service) => {
    test('tells browsers on every answer to come by HTTPS alone, and on localhost on none', async () => {
      const all = await answersOf(service);
      assert.deepEqual(
        all,
        Array.from(all, () => year),
      );
      assert.match(await toNonsense(service), /\r\nstrict-transport-security: max-age=31536000\r\n/);
      const local = await answersOf(service, { host: 'localhost' });
      assert.deepEqual(
        local,
        Array.from(local, () => undefined),
      );
    });
  },
  { settings: { base_url: 'https://ci.example.org' } },
);

describeServiceOnOne('a service without a name', (service) => {
  test('says nothing about how else its host is to be reached', async () => {
    const all = await answersOf(service);
    assert.deepEqual(
      all,
      Array.from(all, () => undefined),
    );
    assert.doesNotMatch(await toNonsense(service), /strict-transport/i);
  });
});

describe('a certificate', () => {
  const folder = temporaryFolder();
  after(() => rmSync(folder, { recursive: true }));

  test('gives the service a name where it has one in it', async () => {
    const made = async (names: string): Promise<string> => {
      const args = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-noenc', '-subj', '/CN=x'];
      const { status, stdout } = await run('openssl', [...args, '-keyout', join(folder, 'key'), '-addext', names]);
      assert.equal(status, 0);
      return stdout.toString();
    };
    const named = await made('subjectAltName=DNS:localhost,DNS:ci.example.org,IP:127.0.0.1');
    const local = await made('subjectAltName=DNS:localhost,DNS:a.localhost,IP:192.0.2.1');
    assert.equal(hasOwnName({ baseUrl: undefined, cert: named }), true);
    assert.equal(hasOwnName({ baseUrl: undefined, cert: local }), false);
    assert.equal(hasOwnName({ baseUrl: undefined, cert: undefined }), false);
    assert.equal(hasOwnName({ baseUrl: 'https://192.0.2.1/', cert: named }), false);
    assert.equal(hasOwnName({ baseUrl: 'https://localhost:8443', cert: undefined }), false);
    assert.equal(hasOwnName({ baseUrl: 'http://ci.example.org', cert: undefined }), false);
  });
});
