import assert from 'node:assert/strict';
import { connect } from 'node:tls';
import { once } from 'node:events';
import { before, test } from 'node:test';
import * as fc from 'fast-check';
import { randomName } from '../../src/lib/random-name.ts';
import type { Answer } from '../support/client.ts';
import { registered, type Registered } from '../support/registered.ts';
import { aCommit } from '../support/runner.ts';
import { describeService } from '../support/service.ts';
import { archiveOf } from '../support/software.ts';

const patient = new AbortController().signal;

/** Whatever a runner sends, it is answered in the API's form, and nothing of it is taken for our own failure. */
describeService('a message that makes no sense', (service) => {
  let runner: Registered;
  let claim: string;
  let digest: string;
  before(async () => {
    const alice = await service.user();
    await alice.upload(await alice.createDependency(), await archiveOf({ hello: 'hello\n' }));
    runner = await registered(service);
    const order = (await runner.link.next(randomName(), patient)) ?? assert.fail();
    assert.ok(order.work.kind === 'compile_dependency');
    claim = order.claim;
    digest = order.work.archive.digest;
  });

  interface Message {
    path: string;
    method?: string;
    type?: string;
    headers?: Record<string, string>;
    body?: string | Uint8Array;
  }
  const send = ({ path, method = 'POST', type = 'application/json', headers = {}, body }: Message): Promise<Answer> =>
    service.api.ask(method, path, {
      headers: {
        authorization: `Bearer ${runner.token}`,
        ...(type === '' ? {} : { 'content-type': type }),
        ...headers,
      },
      ...(body === undefined ? {} : { body }),
    });
  const assertAnswered = async (message: Message): Promise<void> => {
    const answer = await send(message);
    assert.ok([200, 400, 403, 404].includes(answer.status), `${answer.status} ${answer.text}`);
    if (answer.status !== 200) assert.ok(answer.body.error, answer.text);
    assert.ok(!/"level":[56]0/.test(service.log), service.log);
  };
  const json = (path: string, body: unknown): Message => ({ path, body: JSON.stringify(body) });
  const report = (change: Record<string, unknown>) => ({ claim, outcome: { kind: 'uncompilable' }, ...change });
  const commit = (change: Record<string, unknown>) =>
    report({ logSize: 0, outcome: { kind: 'fetched', commit: { ...aCommit, ...change } } });

  const step = { name: 'command', from: 0, to: 1 };

  /** What once went wrong, or comes to mind. */
  const kept = (): Message[] => [
    ...['next', 'extend', 'finish', 'key', 'log', 'tests'].flatMap((name) => [
      { path: `/runner/${name}`, body: '' },
      { path: `/runner/${name}`, body: '{' },
      { path: `/runner/${name}`, body: 'null' },
      { path: `/runner/${name}`, body: '[]' },
      { path: `/runner/${name}`, body: '7' },
      { path: `/runner/${name}`, body: '{"claim":{"toString":1},"claims":{"length":1}}' },
      { path: `/runner/${name}`, body: `${'['.repeat(400)}${']'.repeat(400)}` },
      { path: `/runner/${name}`, body: 'x', type: 'application/octet-stream' },
      { path: `/runner/${name}`, body: 'x', type: 'text/plain' },
      { path: `/runner/${name}`, type: '' },
      { path: `/runner/${name}`, method: 'GET', type: '' },
    ]),
    ...['', 'short', 'x'.repeat(65), '__proto__', `${'a'.repeat(16)}\0`, '\ud800'.repeat(16), 7, null, []]
      .flatMap((odd) => [
        json('/runner/next', { claim: odd }),
        json('/runner/key', { claim: odd }),
        json('/runner/extend', { claims: [odd] }),
        json('/runner/extend', { claims: odd === null || Array.isArray(odd) ? odd : [claim, odd] }),
        json('/runner/finish', report({ claim: odd, logSize: 0 })),
        json('/runner/finish', report({ next: odd, logSize: -1 })),
      ])
      .filter(({ body }) => body !== '{"claims":[]}'),
    json('/runner/extend', { claims: Array.from({ length: 5000 }, () => randomName()) }),
    json('/runner/next', { claim: randomName(), more: 'x'.repeat(100_000) }),
    ...[-1, 1.5, 2 ** 60, '0', null, {}].map((logSize) => json('/runner/finish', report({ logSize }))),
    ...[undefined, null, 7, [], {}, { kind: 'toString' }, { kind: 'exited' }, { kind: 'exited', status: 256 }].map(
      (outcome) => json('/runner/finish', report({ outcome, logSize: 0 })),
    ),
    ...[
      null,
      7,
      {},
      [null],
      [{ name: 'x', from: -1, to: 0 }],
      [{ name: 7, from: 0, to: 0 }],
      Array.from({ length: 1001 }, () => step),
    ].map((steps) => json('/runner/finish', report({ steps, logSize: 0 }))),
    ...[{ kind: 'killed', reason: 'A B' }, { kind: 'compiled', digest: '../x' }, { kind: 'pushed' }].map((outcome) =>
      json('/runner/finish', report({ outcome, logSize: 0 })),
    ),
    ...[{ sha: 'x' }, { message: '\0' }, { branches: 'main' }, { files: [1] }, { ref: 7 }, { authoredDate: '' }].map(
      (change) => json('/runner/finish', commit(change)),
    ),
    json('/runner/finish', commit({ tags: Array.from({ length: 20_001 }, () => 'x') })),
    ...['-1', '1.5', '', 'x', '9'.repeat(30)].map((offset) => ({
      path: '/runner/log',
      type: 'application/octet-stream',
      headers: { 'headrace-claim': claim, 'headrace-offset': offset },
      body: Buffer.from('x'),
    })),
    { path: '/runner/log', type: 'application/octet-stream', body: Buffer.from('no claim') },
    { path: '/runner/log', type: 'application/octet-stream', body: Buffer.alloc(1024 * 1024 + 1) },
    { path: '/runner/blobs', type: 'application/octet-stream', body: Buffer.from('no claim') },
    ...['x', '..', '%2e%2e%2fetc', digest.toUpperCase(), digest.slice(1)].map((name) => ({
      path: `/runner/blobs/${name}`,
      method: 'GET',
      type: '',
    })),
    ...['-1', 'x', '1e3', '1.5', '9'.repeat(30), ''].map((offset) => ({
      path: `/runner/blobs/${digest}?offset=${offset}`,
      method: 'GET',
      type: '',
    })),
    { path: `/runner/blobs/${digest}?offset[]=1&offset[x]=2`, method: 'GET', type: '' },
    { path: `/runner/blobs/${digest}?offset=99999999`, method: 'GET', type: '' },
  ];

  test('is refused under the name of what is wrong', async () => {
    for (const message of kept()) await assertAnswered(message);
    const answer = await send(json('/runner/finish', report({ logSize: -1 })));
    assert.deepEqual([answer.status, answer.body], [403, { error: { logSize: ['invalid_format'] } }]);
    const deep = await send(json('/runner/finish', commit({ files: [{}] })));
    assert.deepEqual(deep.body, { error: { 'outcome[commit][files]': ['invalid_format'] } });
  });

  test('whatever it is, never makes the service fail [promise: runner-claims]', async () => {
    const odd = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.constantFrom('', '\0', '-1', '__proto__', 'x'.repeat(5000), '\ud800'),
      fc.jsonValue({ maxDepth: 3 }),
      fc.constant(null),
      fc.double(),
    );
    const kinds = ['fetched', 'unfetchable', 'exited', 'compiled', 'killed', 'pushed', 'lost', 'cancelled', 'odd'];
    const fields = fc.dictionary(
      fc.constantFrom('reason', 'status', 'digest', 'message', 'commit', ...Object.keys(aCommit)),
      odd,
    );
    const outcome = fc
      .tuple(fc.constantFrom(...kinds), fields, fields)
      .map(([kind, top, change]) => ({ kind, commit: { ...aCommit, ...change }, ...top }));
    const someClaim = fc.oneof(odd, fc.constant(claim), fc.constant('not-a-claim-of-anybody'));
    const body = fc.oneof(
      fc.record({ claim: someClaim, claims: fc.array(someClaim, { minLength: 1 }) }, { requiredKeys: [] }),
      fc.record({ claim: someClaim, outcome: fc.oneof(outcome, odd), logSize: fc.oneof(fc.constant(1), odd) }),
      odd,
    );
    const header = fc.oneof(
      fc.constant(claim),
      fc.nat().map(String),
      fc.string().map((text) => text.replaceAll(/[^\x21-\x7e]/g, '?')),
    );
    const messages: fc.Arbitrary<Message> = fc.oneof(
      fc
        .tuple(fc.constantFrom('extend', 'finish', 'key'), body)
        .map(([name, value]) => json(`/runner/${name}`, value ?? null)),
      // One with a good claim would be held: there is nothing to do.
      odd.map((value) => json('/runner/next', { claim: value ?? null })),
      fc
        .tuple(fc.constantFrom('/runner/log', '/runner/blobs'), header, header, fc.uint8Array({ maxLength: 50 }))
        .map(([path, one, other, bytes]) => ({
          path,
          type: 'application/octet-stream',
          headers: { 'headrace-claim': one, 'headrace-offset': other },
          body: bytes,
        })),
      fc.tuple(fc.constantFrom(digest, 'x', '%00', '%ff'), header).map(([name, offset]) => ({
        path: `/runner/blobs/${name}?offset=${encodeURIComponent(offset)}`,
        method: 'GET',
        type: '',
      })),
      fc
        .tuple(
          fc.constantFrom('next', 'extend', 'finish', 'key', 'log'),
          fc.uint8Array({ minLength: 1, maxLength: 50 }),
        )
        .map(([name, bytes]) => ({ path: `/runner/${name}`, body: bytes })),
    );
    await fc.assert(
      fc.asyncProperty(messages, (message) => assertAnswered(message)),
      { numRuns: 500 },
    );
  });

  test("that breaks off in the middle is nobody's failure", async () => {
    const { hostname, port } = new URL(service.address);
    for (const path of ['/runner/log', '/runner/blobs', '/runner/finish']) {
      const socket = connect({ host: hostname, port: Number(port), rejectUnauthorized: false });
      await once(socket, 'secureConnect');
      const type = path === '/runner/finish' ? 'application/json' : 'application/octet-stream';
      const headers = [`authorization: Bearer ${runner.token}`, `content-type: ${type}`, 'content-length: 1000'];
      const place = [`headrace-claim: ${claim}`, 'headrace-offset: 0', 'host: x'];
      socket.write([`POST ${path} HTTP/1.1`, ...headers, ...place, '', '{"claim":'].join('\r\n'));
      socket.end();
      await once(socket.resume(), 'close');
    }
    await assertAnswered(json('/runner/key', { claim }));
  });
});
