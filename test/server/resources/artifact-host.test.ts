import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:http2';
import { before, test } from 'node:test';
import { artifactAddresses } from '../../../src/server/auth/artifact-addresses.ts';
import { basic, type Answer, type Asking, type Record_ } from '../../support/client.ts';
import { addArtifact, addBuild, addCommit } from '../../support/rows.ts';
import { describeService } from '../../support/service.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

const name = 'artifacts.localhost';
const settings = { base_url: 'https://ci.localhost', artifact_url: `https://${name}` };
const report = '<!doctype html><link rel="stylesheet" href="style.css"><script>document.title = "run"</script>';

describeService(
  'the host name of artifacts',
  (service) => {
    let alice: User;
    let project: Record_;
    let build: { id: bigint };
    let page: { id: bigint };

    const aBuild = async (of: Record_): Promise<{ id: bigint }> => {
      const suite = await alice.createSuite(of, { name: `suite-${Math.random()}` });
      const commit = await addCommit(service.store, of);
      const buildRequest = await alice.requestBuild(of);
      return addBuild(service.store, of, { commit, buildRequest, suite }, { build_state: 'passed' });
    };
    before(async () => {
      alice = await service.user();
      project = await alice.createProject();
      build = await aBuild(project);
      page = await addArtifact(service.store, build, 'coverage/index.html', report);
      for (const path of [
        'coverage/style.css',
        'coverage/app.mjs',
        'coverage/data.json',
        'coverage/a b#ü%.svg',
        'blob',
      ])
        await addArtifact(service.store, build, path, `content of ${path}`);
    });

    /** The path of the address that the page of the report has. */
    const addressIn = ({ text, status }: Answer): string => {
      assert.equal(status, 200);
      const [, address = ''] = /<iframe\b[^>]*\bsrc="https:\/\/artifacts\.localhost(\/[^"]+)"/s.exec(text) ?? [];
      assert.match(address, /^\/[\d-]+-[\w-]{43}\/coverage\/index\.html$/);
      return address;
    };
    const pagePath = (): string => `/ui/projects/${project.id}/builds/${build.id}/artifacts/${page.id}`;
    const opened = async (user: User = alice): Promise<string> => {
      const tab = new Tab(service);
      await tab.signIn(user.credentials);
      return addressIn(await tab.get(pagePath()));
    };
    const ticketIn = (address: string): string => address.split('/')[1] ?? '';
    const ask = (method: string, path: string, { headers = {}, ...asking }: Asking = {}): Promise<Answer> =>
      service.api.ask(method, path, { ...asking, headers: { host: name, ...headers } });
    const get = (path: string, headers: Record<string, string> = {}): Promise<Answer> => ask('GET', path, { headers });

    test('serves the files of one build at a signed address, each as what it is, without an origin [promise: artifact-origin]', async () => {
      const ticket = ticketIn(await opened());
      const types: [string, string][] = [
        ['coverage/index.html', 'text/html'],
        ['coverage/', 'text/html'],
        ['coverage/style.css', 'text/css; charset=utf-8'],
        ['coverage/app.mjs', 'text/javascript; charset=utf-8'],
        ['coverage/data.json', 'application/json'],
        [`coverage/${encodeURIComponent('a b#ü%.svg')}`, 'image/svg+xml'],
        ['blob', 'application/octet-stream'],
      ];
      for (const [path, type] of types) {
        const { status, text, headers } = await get(`/${ticket}/${path}?v=1`);
        assert.equal(status, 200, path);
        assert.equal(
          text,
          path.endsWith('l') || path.endsWith('/') ? report : `content of ${decodeURIComponent(path)}`,
        );
        assert.equal(headers['content-type'], type);
        assert.equal(headers['content-security-policy'], 'sandbox allow-scripts');
        assert.equal(headers['x-content-type-options'], 'nosniff');
        assert.equal(headers['referrer-policy'], 'no-referrer');
        assert.equal(headers['cache-control'], 'private, no-cache');
        assert.equal(headers['access-control-allow-origin'], '*');
        assert.equal(headers['set-cookie'], undefined);
        assert.equal(headers['content-disposition'] !== undefined, path === 'blob', path);
      }
      const folder = await get(`/${ticket}/coverage`);
      assert.deepEqual([folder.status, folder.headers.location], [302, `/${ticket}/coverage/`]);
      const file = `/${ticket}/coverage/index.html`;
      const part = await get(file, { range: 'bytes=0-8' });
      assert.deepEqual([part.status, part.text], [206, '<!doctype']);
      assert.equal((await get(file, { range: 'bytes=9999-' })).status, 416);
      const { etag = '' } = part.headers;
      assert.equal((await get(file, { 'if-none-match': etag })).status, 304);
      const head = await ask('HEAD', file);
      assert.deepEqual([head.status, head.text, head.headers['content-length']], [200, '', String(report.length)]);
    });

    test('serves nothing else there, under no spelling of the name, and no artifact elsewhere [promise: artifact-origin]', async () => {
      const address = await opened();
      const tab = new Tab(service);
      await tab.signIn(alice.credentials);
      const cookie = Array.from(tab.cookies, ([key, value]) => `${key}=${value}`).join('; ');
      const credentials = { authorization: basic(alice.credentials), cookie, 'sec-fetch-site': 'same-origin' };
      const own = [
        '/',
        '/ui/',
        '/ui/account',
        '/ui/sign-in',
        '/whoami',
        '/projects?callback=x',
        '/openapi.json',
        '/healthz',
      ];
      const others = [
        '/readyz',
        '/metrics',
        '/.well-known/openid-configuration',
        '/ui/style.css',
        pagePath(),
        '/%zz',
        '//',
        '',
      ];
      for (const host of [name, `${name}:8443`, `ARTIFACTS.localhost`, `${name}.`, `artifact%73.localhost:1`])
        for (const path of [...own, ...others]) {
          const { status, headers, text } = await get(path || '/x', { ...credentials, host });
          assert.deepEqual([status, text], [404, 'There is nothing here.\n'], `${host} ${path}`);
          assert.deepEqual([headers['set-cookie'], headers.location], [undefined, undefined]);
          assert.equal(headers['content-security-policy'], 'sandbox allow-scripts');
        }
      const form = { name: 'made here' };
      assert.equal((await ask('POST', '/projects', { form, headers: credentials })).status, 405);
      for (const method of ['PUT', 'DELETE', 'OPTIONS', 'PATCH', 'TRACE'])
        assert.equal((await ask(method, address, { headers: credentials })).status, 405, method);
      assert.ok((await alice.get('/projects')).list.every((one) => one.name !== form.name));
      // With the host in the target, either name counts.
      assert.equal((await get(`https://${name}/whoami`, { ...credentials, host: 'ci.localhost' })).status, 404);
      assert.equal((await get('https://ci.localhost/whoami', credentials)).status, 404);
      assert.equal((await get(`https://${name}${address}`, { host: 'ci.localhost' })).status, 200);
      const socket = { connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-version': '13' };
      const key = { 'sec-websocket-key': Buffer.alloc(16).toString('base64') };
      assert.equal((await get('/runner/connection', { ...socket, ...key })).text, 'There is nothing here.\n');
      assert.match((await service.api.get(address)).text, /api_does_not_exists/);
      assert.equal((await service.api.get('/whoami', { as: alice.credentials })).status, 200);
      assert.equal((await get(address, { 'service-worker': 'script' })).status, 403);
      assert.equal((await get(address, { 'sec-fetch-dest': 'serviceworker' })).status, 403);

      const session = connect(service.address, { rejectUnauthorized: false });
      const status = async (path: string): Promise<unknown> => {
        const stream = session.request({ ':path': path, ':authority': name, ...credentials });
        const [headers] = (await once(stream, 'response')) as [Record<string, unknown>];
        stream.resume();
        await once(stream, 'close');
        return headers[':status'];
      };
      assert.deepEqual([await status('/whoami'), await status('/ui/'), await status(address)], [404, 404, 200]);
      session.close();
    });

    test('takes no altered address, no other build, no strange name, and none after an hour [promise: artifact-origin]', async () => {
      const address = await opened();
      const ticket = ticketIn(address);
      const other = await aBuild(project);
      await addArtifact(service.store, other, 'coverage/index.html', 'another build');
      const status = async (path: string): Promise<number> => (await get(path)).status;
      assert.equal(await status(address), 200);
      for (let at = 0; at < ticket.length; at += 1) {
        const letter = ticket[at] === '1' ? '2' : '1';
        const altered = `${ticket.slice(0, at)}${letter}${ticket.slice(at + 1)}`;
        assert.equal(await status(`/${altered}/coverage/index.html`), 404, altered);
      }
      // The last letter of a signature has two bits without a meaning.
      const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
      for (const last of letters.replace(ticket.at(-1) ?? '', ''))
        assert.equal(await status(`/${ticket.slice(0, -1)}${last}/coverage/index.html`), 404);
      assert.equal(await status(address.replace(String(build.id), String(other.id))), 404);
      const up = ['../coverage/index.html', '%2e%2e/coverage/index.html', 'coverage/../coverage/index.html'];
      const odd = ['coverage%2findex.html', 'coverage%2Findex.html', '/coverage/index.html', 'coverage//index.html'];
      const bytes = [
        'coverage/index.html%00',
        'coverage/%0a',
        '%e2%80%aecoverage',
        '%ff',
        '%',
        '.',
        '',
        'coverage\\index.html',
      ];
      for (const path of [...up, ...odd, ...bytes]) assert.equal(await status(`/${ticket}/${path}`), 404, path);

      const { vault } = service.store;
      const reader = { project: project.id, build: build.id, account: 0n };
      const at = (now: number, url = settings.artifact_url): string =>
        new URL(artifactAddresses({ url, vault, now: () => now }).sign(reader, 'blob')).pathname;
      const old = await get(at(Date.now() - 3_601_000));
      assert.equal(old.status, 410);
      assert.match(old.text, /Open the artifact again/);
      assert.equal(await status(at(Date.now(), 'https://elsewhere.localhost')), 404, 'signed for another host name');
    });

    test('stops as soon as the reader may no longer see the project [promise: artifact-origin]', async () => {
      const members = `/projects/${project.id}/collaborators`;
      const [bob, carol] = [await service.user(), await service.user()];
      const member = (await alice.post(members, { email: bob.credentials.email })).record;
      await alice.post(members, { email: carol.credentials.email });
      const status = async (path: string): Promise<number> => (await get(path)).status;
      const [ofBob, ofCarol, ofAlice] = [await opened(bob), await opened(carol), await opened()];
      assert.deepEqual([await status(ofBob), await status(ofCarol)], [200, 200]);
      await alice.delete(`${members}/${member.id}`);
      await service.suspend(carol);
      assert.deepEqual([await status(ofBob), await status(ofCarol), await status(ofAlice)], [404, 404, 200]);

      await alice.put(`/projects/${project.id}`, { public: 'true' });
      const ofAnybody = addressIn(await new Tab(service).get(pagePath()));
      assert.equal(await status(ofAnybody), 200);
      await alice.put(`/projects/${project.id}`, { public: 'false' });
      assert.equal(await status(ofAnybody), 404);
      assert.equal((await new Tab(service).get(pagePath())).status, 303);

      assert.equal((await alice.delete(`/projects/${project.id}`)).status, 200);
      assert.equal(await status(ofAlice), 404);
    });
  },
  { settings },
);
