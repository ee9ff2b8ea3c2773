import assert from 'node:assert/strict';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { before, beforeEach, describe, test } from 'node:test';
import {
  discoverAuthorizationServerMetadata,
  discoverOAuthProtectedResourceMetadata,
  exchangeAuthorization,
  startAuthorization,
} from '@modelcontextprotocol/client';
import { ownCertificate } from '../../../src/server/http/certificate.ts';
import { dropUnusedDocuments } from '../../../src/server/oauth/clients.ts';
import { Agent, fetchFrom } from '../../support/agent.ts';
import { pkcePair } from '../../support/applications.ts';
import type { Answer } from '../../support/client.ts';
import { onOneDatabase, type TestDatabase } from '../../support/databases.ts';
import { temporaryFolder } from '../../support/folders.ts';
import { Service } from '../../support/service.ts';
import { Tab } from '../../support/tab.ts';
import type { User } from '../../support/user.ts';

const page = '/oauth2/authorize';
const callback = 'https://agent.example/callback';

/** A host that anybody could have: it serves the document of an application over TLS. */
async function documentHost(database: TestDatabase) {
  const folder = temporaryFolder();
  const certificate = await ownCertificate(folder, ['localhost']);
  const trustFile = join(folder, 'authority.pem');
  writeFileSync(trustFile, certificate.cert);
  const server: Server = createServer(certificate).listen(0, '127.0.0.1');
  await once(server, 'listening');
  database.afterwards(() => {
    server.close();
    server.closeAllConnections();
  });
  return { server, trustFile, url: `https://localhost:${(server.address() as AddressInfo).port}/agent.json` };
}

describe('an application that is not registered', () =>
  onOneDatabase((database) => {
    let host: Awaited<ReturnType<typeof documentHost>>;
    let service: Service;
    let alice: User;
    let tab: Tab;
    let calls = 0;
    let answer: (response: ServerResponse) => void;
    const say = (fields: object, status = 200, type = 'application/json', more: Record<string, string> = {}): void => {
      const said = { client_id: host.url, client_name: 'Agent', redirect_uris: [callback], ...fields };
      answer = (response) =>
        void response.writeHead(status, { 'content-type': type, ...more }).end(JSON.stringify(said));
    };
    before(async () => {
      host = await documentHost(database);
      host.server.on('request', (_, response: ServerResponse) => {
        calls += 1;
        answer(response);
      });
      service = new Service(database, { settings: { webhook_allow: '127.0.0.0/8', trust_file: host.trustFile } });
      await service.start();
      alice = await service.user();
      tab = new Tab(service);
      await tab.signIn(alice.credentials);
    });
    beforeEach(() => {
      say({});
      calls = 0;
    });

    const { verifier, challenge } = pkcePair();
    const asked = (more: Record<string, string | undefined> = {}): string => {
      const fields: Record<string, string | undefined> = {
        client_id: host.url,
        redirect_uri: callback,
        scope: 'projects',
        code_challenge: challenge,
        code_challenge_method: 'S256',
        resource: `${service.address}/mcp`,
        ...more,
      };
      const sent = Object.entries(fields).filter((pair): pair is [string, string] => pair[1] !== undefined);
      return `${page}?${new URLSearchParams(sent).toString()}`;
    };
    const landing = (sent: Answer): Record<string, string> =>
      Object.fromEntries(new URL(sent.headers.location ?? '').searchParams);
    const allow = async (more: Record<string, string | undefined> = {}) =>
      landing(await tab.submit(await tab.get(asked(more)), page, { decision: 'allow' }));
    const exchange = (fields: Record<string, string>): Promise<Answer> =>
      service.api.post('/oauth2/access_token', {
        form: {
          grant_type: 'authorization_code',
          client_id: host.url,
          redirect_uri: callback,
          code_verifier: verifier,
          ...fields,
        },
      });
    const stored = () =>
      service.store.db.read.selectFrom('oauth_clients').selectAll().where('document_url', 'is not', null).execute();

    test('gets a token for /mcp once the user has read its host, and the user can revoke it', async () => {
      assert.match((await tab.get(asked())).text, /Nobody registered it here.*localhost:\d+/s);
      const { code = '', iss } = await allow();
      assert.equal(iss, service.address);
      assert.equal((await exchange({ code, resource: service.address })).body.error, 'invalid_target');
      const { body } = await exchange({ code, resource: `${service.address}/mcp` });
      assert.equal(body.scope, 'projects', JSON.stringify(body));
      const { host: name } = new URL(host.url);
      const { response } = await alice.get('/authorizations');
      assert.partialDeepStrictEqual(response, [{ name: `Agent (${name})`, owner: name, scopes: ['projects'] }]);
      // The token opens nothing but /mcp.
      for (const path of ['/projects', '/whoami']) {
        const headers = { authorization: `Bearer ${String(body.access_token)}` };
        assert.equal((await service.api.get(path, { headers })).status, 401);
        assert.equal((await service.api.get(`${path}?oauth_token=${String(body.access_token)}`)).status, 401);
      }
      // What is in use stays, and what nobody uses goes.
      const { db } = service.store;
      await db.transaction((trx) => trx.updateTable('oauth_clients').set({ created_at: 1n }).execute());
      await db.transaction((trx) => dropUnusedDocuments(trx));
      assert.equal((await stored()).length, 1);
      const [{ id_str: id = '' } = {}] = response as { id_str?: string }[];
      assert.equal((await tab.get('/ui/applications')).text.includes(`Registered by ${name}`), true);
      const revoked = await tab.submit(await tab.get('/ui/applications'), '/ui/applications', {
        do: 'revoke',
        authorization_id: id,
      });
      assert.equal(revoked.status, 303);
      await db.transaction((trx) => dropUnusedDocuments(trx));
      assert.deepEqual(await stored(), []);
    });

    test('finds out all of it, and calls tools, with the protocol’s own client', async () => {
      const fetchFn = fetchFrom(service);
      const { resource, authorization_servers: [issuer = ''] = [] } = await discoverOAuthProtectedResourceMetadata(
        `${service.address}/mcp`,
        {},
        fetchFn,
      );
      const metadata = await discoverAuthorizationServerMetadata(issuer, { fetchFn });
      assert.ok(metadata);
      const known = { metadata, clientInformation: { client_id: host.url }, resource: new URL(resource), fetchFn };
      const asks = { ...known, redirectUrl: callback, scope: 'projects', state: 'x' };
      const { authorizationUrl, codeVerifier } = await startAuthorization(issuer, asks);
      const shown = await tab.get(`${authorizationUrl.pathname}${authorizationUrl.search}`);
      const { code = '', iss = '' } = landing(await tab.submit(shown, page, { decision: 'allow' }));
      const answered = { ...known, authorizationCode: code, iss, codeVerifier, redirectUri: callback };
      const { access_token: token } = await exchangeAuthorization(issuer, answered);
      const project = await alice.createProject();
      await using agent = await Agent.connect(service, token);
      assert.ok((await agent.call('projects')).quoted.includes(project.id_str));
    });

    test('a token for the whole server opens the API', async () => {
      for (const resource of [undefined, service.address, `${service.address}/`]) {
        const { code = '' } = await allow({ resource });
        const token = String((await exchange({ code })).body.access_token);
        const headers = { authorization: `Bearer ${token}` };
        assert.equal((await service.api.get('/projects', { headers })).status, 200);
        // And may be made narrower when the code is exchanged.
        const again = await allow({ resource });
        const { body } = await exchange({ code: again.code ?? '', resource: `${service.address}/mcp` });
        const narrow = { authorization: `Bearer ${String(body.access_token)}` };
        assert.equal((await service.api.get('/projects', { headers: narrow })).status, 401);
      }
      for (const resource of ['https://evil.example/mcp', `${service.address}/mcp/`, 'x', `${service.address}/mcp#x`]) {
        const shown = await tab.get(asked({ resource }));
        assert.equal(shown.status, 400);
        assert.equal(landing(await tab.submit(shown, page, { decision: 'return' })).error, 'invalid_target');
      }
    });

    test('needs PKCE, and an address that its document names', async () => {
      const shown = await tab.get(asked({ code_challenge: undefined, code_challenge_method: undefined }));
      assert.equal(landing(await tab.submit(shown, page, { decision: 'return' })).error, 'invalid_request');
      const implicit = await tab.get(asked({ response_type: 'token' }));
      assert.equal(implicit.status, 400);
      for (const redirect of ['https://evil.example/', `${callback}/`, 'http://127.0.0.1:4000/callback']) {
        const refused = await tab.get(asked({ redirect_uri: redirect }));
        assert.deepEqual([refused.status, refused.headers.location], [400, undefined]);
      }
      // The document may change between the page and the decision.
      const open = await tab.get(asked());
      say({ redirect_uris: ['https://other.example/callback'] });
      const late = await tab.submit(open, page, { decision: 'allow' });
      assert.deepEqual([late.status, late.headers.location], [400, undefined]);
      // Who names another host's address gets no answer there itself, and the page shows both hosts.
      const both = (await tab.get(asked({ redirect_uri: 'https://other.example/callback' }))).text;
      assert.ok(both.includes('<strong>other.example</strong>') && both.includes(new URL(host.url).host), both);
      // A name that hides or reverses text is not shown.
      say({ client_name: 'Headrace\u202E' });
      assert.ok(!(await tab.get(asked())).text.includes('Headrace\u202E'));
    });

    test('cannot be known by the number of its row', async () => {
      await allow();
      const id = (await stored())[0]?.id;
      assert.equal((await tab.get(asked({ client_id: String(id) }))).status, 400);
      assert.equal((await exchange({ code: 'x', client_id: String(id) })).body.error, 'invalid_client');
    });

    test('is not fetched for visitors, nor from an address that is not a document’s', async () => {
      const stranger = await new Tab(service).get(asked());
      assert.deepEqual([stranger.status, stranger.headers.location?.startsWith('/ui/sign-in?')], [303, true]);
      const { origin } = new URL(host.url);
      const [hostName] = host.url.split('/agent.json');
      const others = [
        origin,
        `${origin}/`,
        `${host.url}?x`,
        `${host.url}#x`,
        `${origin}/a/../agent.json`,
        host.url.replace('https://', 'http://'),
        host.url.replace('https://', 'HTTPS://'),
        host.url.replace('https://', 'https://me@'),
        `${hostName}/${'x'.repeat(3000)}`,
      ];
      for (const id of others) assert.equal((await tab.get(asked({ client_id: id }))).status, 400, id);
      assert.equal(calls, 0);
      const key = (await exchange({ code: 'x', client_id: 'https://agent.example/new.json' })).body.error;
      assert.equal(key, 'invalid_client');
    });

    test('is refused with a document that lies, leads elsewhere, is huge or never ends', async () => {
      const lies: (() => void)[] = [
        () => say({ client_id: `${host.url}2` }),
        () => say({ client_id: [host.url] }),
        () => say({ redirect_uris: undefined }),
        () => say({ redirect_uris: [] }),
        () => say({ redirect_uris: [callback, 'javascript:alert(1)'] }),
        () => say({ redirect_uris: Array.from({ length: 21 }, (_, at) => `${callback}${at}`) }),
        () => say({ client_secret: 'known to all' }),
        () => say({ token_endpoint_auth_method: 'client_secret_post' }),
        () => say({}, 302, 'application/json', { location: `${host.url}2` }),
        () => say({}, 404),
        () => say({}, 200, 'text/html'),
        () => say({ more: 'x'.repeat(20_000) }),
        () => (answer = (response) => void response.end('not JSON')),
        () =>
          (answer = (response) =>
            void response.writeHead(200, { 'content-type': 'application/json' }).end('['.repeat(9000))),
        () =>
          (answer = (response) => {
            response.writeHead(200, { 'content-type': 'application/json' });
            const more = (): void => void response.write('x'.repeat(1000), () => response.writable && more());
            more();
          }),
      ];
      for (const lie of lies) {
        lie();
        const refused = await tab.get(asked());
        assert.deepEqual([refused.status, refused.headers.location], [400, undefined], lie.toString());
        assert.ok(refused.text.includes('the document about it cannot be used'), refused.text);
      }
      assert.equal(calls, lies.length, 'no redirect was followed');
      // A host that says nothing costs this user a few seconds, and others nothing.
      const held: ServerResponse[] = [];
      const { promise, resolve } = Promise.withResolvers<void>();
      answer = (response) => {
        held.push(response);
        resolve();
      };
      const waiting = tab.get(asked());
      await promise;
      say({});
      const bob = await service.user();
      const his = new Tab(service);
      await his.signIn(bob.credentials);
      assert.equal((await his.get(asked())).status, 200);
      assert.equal((await waiting).status, 400);
    });
  }));

describe('the document of an application', () =>
  onOneDatabase((database) => {
    test('is not fetched from an address inside the network', async () => {
      const host = await documentHost(database);
      let calls = 0;
      host.server.on('request', (_, response: ServerResponse) => {
        calls += 1;
        response.end();
      });
      const service = new Service(database, { settings: { trust_file: host.trustFile } });
      await service.start();
      const tab = new Tab(service);
      await tab.signIn((await service.user()).credentials);
      const { port } = new URL(host.url);
      for (const name of ['localhost', '127.0.0.1', '[::1]', '[::ffff:127.0.0.1]', '10.0.0.1', '169.254.169.254']) {
        const query = new URLSearchParams({ client_id: `https://${name}:${port}/agent.json`, redirect_uri: callback });
        const refused = await tab.get(`${page}?${query.toString()}`);
        assert.equal(refused.status, 400);
      }
      assert.equal(calls, 0);
    });

    test('and both documents about tokens are public', async () => {
      const service = new Service(database, { settings: { base_url: 'https://ci.example.org/' } });
      await service.start();
      const issuer = 'https://ci.example.org';
      const { body: server, headers } = await service.api.get('/.well-known/oauth-authorization-server');
      assert.partialDeepStrictEqual(server, {
        issuer,
        authorization_endpoint: `${issuer}/oauth2/authorize`,
        token_endpoint: `${issuer}/oauth2/access_token`,
        code_challenge_methods_supported: ['S256'],
        authorization_response_iss_parameter_supported: true,
        client_id_metadata_document_supported: true,
      });
      assert.equal('registration_endpoint' in server, false);
      assert.equal(headers['access-control-allow-origin'], '*');
      const { body: resource } = await service.api.get('/.well-known/oauth-protected-resource/mcp');
      assert.partialDeepStrictEqual(resource, {
        resource: `${issuer}/mcp`,
        authorization_servers: [issuer],
        bearer_methods_supported: ['header'],
      });
    });
  }));
