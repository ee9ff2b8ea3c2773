import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { Validator } from '@seriousme/openapi-schema-validator';
import { errorStatus } from '../../../src/shared/errors.ts';
import { agentPaths } from '../../../src/server/agents/openapi.ts';
import { identityPaths } from '../../../src/server/identity/documents.ts';
import { metadataPaths } from '../../../src/server/oauth/metadata.ts';
import { hookPaths } from '../../../src/server/inbound-hooks/openapi.ts';
import { monitoringPaths } from '../../../src/server/http/monitoring-paths.ts';
import { openApiDocument } from '../../../src/server/http/openapi.ts';
import { routes } from '../../../src/server/resources/index.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import type { User } from '../../support/user.ts';
import { buildWorld, type World } from '../../support/world.ts';
import { conforms, type Schema } from '../../support/schema.ts';

interface Operation {
  operationId: string;
  parameters?: { name: string; description?: string }[];
  security: unknown[];
  responses: Record<string, { content?: Record<string, { schema: Schema }> }>;
}
interface Document {
  openapi: string;
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> };
}

const outside = { ...monitoringPaths, ...hookPaths, ...identityPaths, ...metadataPaths, ...agentPaths };
const document = openApiDocument(routes, outside) as unknown as Document;
const { schemas } = document.components;

describe('the OpenAPI document', () => {
  test('is valid for a standard validator', async () => {
    const result = await new Validator().validate(structuredClone(document) as unknown as Record<string, unknown>);
    assert.deepEqual([result.valid, result.errors], [true, undefined]);
    assert.match(document.openapi, /^3\.1\./);
  });

  test('describes every route, and each error with its codes', () => {
    const described = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    const served = routes.map(({ method, path }) => `${method} ${path.replaceAll(/:(\w+)/g, '{$1}')}`);
    const documents = [
      'jwks.json',
      'openid-configuration',
      'oauth-authorization-server',
      'oauth-protected-resource/mcp',
    ];
    const wellKnown = documents.map((name) => `GET /.well-known/${name}`);
    const others = ['GET /healthz', 'GET /metrics', 'POST /hooks/{hook_id}', ...wellKnown];
    others.push('POST /mcp', 'GET /llms.txt', 'GET /docs/{page}');
    assert.deepEqual(described.toSorted(), [...served, ...others].toSorted());
    const text = JSON.stringify(document);
    for (const code of Object.keys(errorStatus)) assert.ok(text.includes(`"${code}"`), code);
    const inEnvelope = Object.entries(document.paths).filter(([path]) => !(path in outside));
    for (const operation of inEnvelope.flatMap(([, methods]) => Object.values(methods))) {
      for (const status of [400, 401, 402, 403, 404, 500]) assert.ok(operation.responses[status]);
    }
  });

  test('names each operation once', () => {
    const ids = Object.values(document.paths).flatMap((methods) =>
      Object.values(methods).map((one) => one.operationId),
    );
    assert.equal(new Set(ids).size, ids.length);
    for (const id of ids) assert.match(id, /^[a-z][A-Za-z]{3,40}$/);
    const wanted = ['listProjects', 'createSuite', 'fetchBuild', 'cancelBuildRequest', 'checkProjectConnection'];
    assert.deepEqual(
      wanted.filter((id) => !ids.includes(id)),
      [],
    );
  });

  test('has each record under its name, and says of each parameter what it is', () => {
    assert.ok(['Project', 'Suite', 'Build', 'BuildRequest', 'Commit', 'Event'].every((name) => name in schemas));
    const named = new Set(
      routes.map(({ answer }) => answer as Schema & { title?: string }).flatMap((one) => one.items ?? one),
    );
    assert.deepEqual(
      [...named].filter((one) => one.type === 'object' && !('title' in one)),
      [],
    );
    const operations = Object.values(document.paths).flatMap((methods) => Object.values(methods));
    const silent = operations.flatMap(({ operationId, parameters = [] }) =>
      parameters.filter(({ description = '' }) => description === '').map(({ name }) => `${operationId} ${name}`),
    );
    assert.deepEqual(silent, []);
  });
});

describeServiceOnOne('the service', (service) => {
  let alice: User;
  let world: World;
  before(async () => {
    alice = await service.user();
    world = await buildWorld(service, alice);
  });

  test('serves the document', async () => {
    assert.deepEqual((await service.api.get('/openapi.json')).body, JSON.parse(JSON.stringify(document)));
  });

  test('answers outside the envelope as the document says', async () => {
    const schemaOf = (path: string, method: string, status: number): Schema =>
      document.paths[path]?.[method]?.responses[status]?.content?.['application/json']?.schema ?? assert.fail(path);
    const health = await service.api.get('/healthz');
    assert.deepEqual(conforms(schemaOf('/healthz', 'get', health.status), health.body, schemas), []);
    const hooks = `/projects/${(await alice.createProject()).id}/hooks`;
    const made = await alice.post(hooks, { provider: 'generic' });
    const { id_str: id, secret } = (made.body as { response: { id_str: string; secret: string } }).response;
    const options = { headers: { authorization: `Bearer ${secret}` }, json: { ref: 'refs/heads/main' } };
    const taken = await service.api.ask('POST', `/hooks/${id}`, options);
    assert.equal(taken.status, 202, taken.text);
    assert.deepEqual(conforms(schemaOf('/hooks/{hook_id}', 'post', 202), taken.body, schemas), []);
  });

  test('answers as the document says', async () => {
    // At the forge of this world nobody listens, a WebSocket answers nothing, and no test has this key.
    const silent = ['/forges/:forge_id/repositories', '/projects/:project_id/tests/history'];
    const answering = routes.filter(({ path, connects }) => !silent.includes(path) && !connects);
    for (const route of answering.filter(({ method }) => method === 'GET')) {
      const operation = document.paths[route.path.replaceAll(/:(\w+)/g, '{$1}')]?.get;
      const content = operation?.responses[200]?.content ?? {};
      const needed = Object.entries(route.query ?? {}).filter(([, field]) => field.required);
      const query = new URLSearchParams(Object.fromEntries(needed.map(([name]) => [name, 'x']))).toString();
      const path = world.path(route.path);
      const answer = await alice.get(`${path}${path.includes('?') ? '&' : '?'}${query}`);
      assert.equal(answer.status, 200, `${route.path} ${answer.text}`);
      const [type = ''] = String(answer.headers['content-type']).split(';', 1);
      const schema = content[type]?.schema;
      assert.ok(schema, `${route.path} ${type}`);
      if (type !== 'application/json') continue;
      assert.deepEqual(conforms(schema, answer.body, schemas), [], route.path);
    }
  });
});
