import assert from 'node:assert/strict';
import { connect } from 'node:tls';
import { once } from 'node:events';
import { after, before, test } from 'node:test';
import * as fc from '../../support/properties.ts';
import { randomName } from '../../../src/shared/lib/random-name.ts';
import { RawRunner } from '../../support/raw-runner.ts';
import { registered, type Registered } from '../../support/registered.ts';
import { aCommit } from '../../support/runner.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import { archiveOf } from '../../support/software.ts';

const patient = new AbortController().signal;

/** Whatever a runner sends, it is answered in the API's form, and nothing of it is taken for our own failure. */
describeServiceOnOne('a message that makes no sense', (service) => {
  let runner: Registered;
  let raw: RawRunner;
  let claim: string;
  let digest: string;
  before(async () => {
    const alice = await service.user();
    await alice.upload(await alice.createDependency(), await archiveOf({ hello: 'hello\n' }));
    runner = await registered(service);
    const order = (await runner.link.next({ claim: randomName() }, patient)) ?? assert.fail();
    assert.ok(order.work.kind === 'compile_dependency');
    claim = order.claim;
    digest = order.work.archive.digest;
    raw = await RawRunner.open(service, runner.token);
  });
  after(() => {
    raw.close();
    runner.link.close();
  });

  interface Message {
    call: unknown;
    fields?: object;
    bytes?: Uint8Array;
  }
  /** What is asked for over HTTP. */
  interface Request {
    path: string;
    method?: string;
    headers?: Record<string, string>;
    body?: Uint8Array;
  }
  const assertUnharmed = (): void => assert.ok(!/"level":[56]0/.test(service.log), service.log);
  const assertAnswered = async ({ call, fields = {}, bytes }: Message): Promise<void> => {
    const { status, error } = await raw.call(call, fields, bytes);
    assert.ok(status === undefined || [403, 404].includes(Number(status)), String(status));
    if (status !== undefined) assert.ok(error);
    assertUnharmed();
  };
  const assertRequestAnswered = async ({ path, method = 'POST', headers = {}, body }: Request): Promise<void> => {
    const answer = await service.api.ask(method, path, {
      headers: { authorization: `Bearer ${runner.token}`, 'content-type': 'application/octet-stream', ...headers },
      ...(body === undefined ? {} : { body }),
    });
    assert.ok([200, 400, 403, 404].includes(answer.status), `${answer.status} ${answer.text}`);
    if (answer.status !== 200) assert.ok(answer.body.error, answer.text);
    assertUnharmed();
  };
  const report = (change: Record<string, unknown>) => ({ claim, outcome: { kind: 'uncompilable' }, ...change });
  const finish = (change: Record<string, unknown>): Message => ({ call: 'finish', fields: report(change) });
  const commit = (change: Record<string, unknown>): Message =>
    finish({ logSize: 0, outcome: { kind: 'fetched', commit: { ...aCommit, ...change } } });

  const span = { name: 'command', from: 0, to: 1 };

  /** What once went wrong, or comes to mind. */
  const kept = (): Message[] => [
    ...[undefined, null, 7, {}, 'toString', '__proto__', 'nothing'].map((call) => ({ call })),
    ...['next', 'extend', 'finish', 'access', 'log', 'tests', 'polled', 'shells', 'shellEnd'].flatMap((call) => [
      { call },
      { call, fields: { claim: { toString: 1 }, claims: { length: 1 } } },
      { call, bytes: Buffer.from('x') },
      { call, bytes: Buffer.alloc(0) },
    ]),
    ...['', 'short', 'x'.repeat(65), '__proto__', `${'a'.repeat(16)}\0`, '\ud800'.repeat(16), 7, null, []].flatMap(
      (odd) => [
        { call: 'next', fields: { claim: odd } },
        { call: 'access', fields: { claim: odd } },
        { call: 'extend', fields: { claims: [odd] } },
        { call: 'extend', fields: { claims: odd === null ? odd : [claim, odd] } },
        finish({ claim: odd, logSize: 0 }),
      ],
    ),
    { call: 'extend', fields: { claims: Array.from({ length: 5000 }, () => randomName()) } },
    { call: 'next', fields: { claim: randomName(), more: 'x'.repeat(100_000) } },
    ...[-1, 1.5, 2 ** 60, '0', null].map((holdMs) => ({ call: 'next', fields: { claim: randomName(), holdMs } })),
    ...['', 'anything', 7, null].map((slot) => ({ call: 'next', fields: { claim: randomName(), slot } })),
    ...[-1, 1.5, 2 ** 60, '0', null, {}].map((logSize) => finish({ logSize })),
    ...[undefined, null, 7, [], {}, { kind: 'toString' }, { kind: 'exited' }, { kind: 'exited', status: 256 }].map(
      (outcome) => finish({ outcome, logSize: 0 }),
    ),
    ...[
      null,
      7,
      {},
      [null],
      [{ name: 'x', from: -1, to: 0 }],
      [{ name: 7, from: 0, to: 0 }],
      Array.from({ length: 1001 }, () => span),
    ].map((spans) => finish({ spans, logSize: 0 })),
    ...[{ kind: 'killed', reason: 'A B' }, { kind: 'compiled', digest: '../x' }, { kind: 'pushed' }].map((outcome) =>
      finish({ outcome, logSize: 0 }),
    ),
    ...[{ sha: 'x' }, { message: '\0' }, { branches: 'main' }, { files: [1] }, { ref: 7 }, { authoredDate: '' }].map(
      (change) => commit(change),
    ),
    commit({ tags: Array.from({ length: 20_001 }, () => 'x') }),
    ...[-1, 1.5, '', 'x', 1e30, null].map((offset) => ({
      call: 'log',
      fields: { claim, offset },
      bytes: Buffer.from('x'),
    })),
    { call: 'log', fields: { claim, offset: 0, bytes: 'text' } },
    { call: 'log', fields: { claim, offset: 0 }, bytes: Buffer.alloc(1024 * 1024 + 1) },
  ];
  const keptRequests = (): Request[] => [
    { path: '/runner/blobs', body: Buffer.from('no claim') },
    ...['x', '..', '%2e%2e%2fetc', digest.toUpperCase(), digest.slice(1)].map((name) => ({
      path: `/runner/blobs/${name}`,
      method: 'GET',
    })),
    ...['-1', 'x', '1e3', '1.5', '9'.repeat(30), ''].map((offset) => ({
      path: `/runner/blobs/${digest}?offset=${offset}`,
      method: 'GET',
    })),
    { path: `/runner/blobs/${digest}?offset[]=1&offset[x]=2`, method: 'GET' },
    { path: `/runner/blobs/${digest}?offset=99999999`, method: 'GET' },
  ];

  test('is refused under the name of what is wrong', async () => {
    for (const message of kept()) await assertAnswered(message);
    for (const request of keptRequests()) await assertRequestAnswered(request);
    const answer = await raw.call('finish', report({ logSize: -1 }));
    assert.deepEqual(answer, { status: 403, error: { logSize: ['invalid_format'] } });
    const deep = await raw.call('finish', commit({ files: [{}] }).fields);
    assert.deepEqual(deep.error, { 'outcome[commit][files]': ['invalid_format'] });
  });

  test('and is no call at all ends its connection, and no other', async () => {
    const nonsense = [
      '',
      '{',
      'null',
      '[]',
      '7',
      '{"call":"key"}',
      '{"id":-1}',
      '['.repeat(400),
      Buffer.from([255, 0]),
    ];
    for (const message of nonsense) {
      const own = await RawRunner.open(service, runner.token);
      own.socket.send(message);
      const [code] = (await once(own.socket, 'close')) as [number];
      assert.equal(code, 1007, String(message));
    }
    assertUnharmed();
    await assertAnswered({ call: 'access', fields: { claim } });
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
        .tuple(fc.constantFrom('extend', 'finish', 'access'), body)
        .map(([call, value]) => ({ call, fields: { ...(value as object) } })),
      // One with a good claim would wait: there is nothing to do.
      odd.map((value) => ({ call: 'next', fields: { claim: value ?? null } })),
      fc
        .tuple(someClaim, odd, fc.uint8Array({ maxLength: 50 }))
        .map(([one, offset, bytes]) => ({ call: 'log', fields: { claim: one, offset }, bytes })),
      odd.map((call) => ({ call })),
    );
    const requests: fc.Arbitrary<Request> = fc.oneof(
      fc
        .tuple(header, fc.uint8Array({ maxLength: 50 }))
        .map(([one, bytes]) => ({ path: '/runner/blobs', headers: { 'headrace-claim': one }, body: bytes })),
      fc.tuple(fc.constantFrom(digest, 'x', '%00', '%ff'), header).map(([name, offset]) => ({
        path: `/runner/blobs/${name}?offset=${encodeURIComponent(offset)}`,
        method: 'GET',
      })),
    );
    await fc.assert(
      fc.asyncProperty(messages, (message) => assertAnswered(message)),
      { numRuns: 400 },
    );
    await fc.assert(
      fc.asyncProperty(requests, (request) => assertRequestAnswered(request)),
      { numRuns: 100 },
    );
  });

  test("that breaks off in the middle is nobody's failure", async () => {
    const { hostname, port } = new URL(service.address);
    const socket = connect({ host: hostname, port: Number(port), rejectUnauthorized: false });
    await once(socket, 'secureConnect');
    const headers = [`authorization: Bearer ${runner.token}`, 'content-type: application/octet-stream'];
    const place = [`headrace-claim: ${claim}`, 'content-length: 1000', 'host: x'];
    socket.write(['POST /runner/blobs HTTP/1.1', ...headers, ...place, '', 'some of it'].join('\r\n'));
    socket.end();
    await once(socket.resume(), 'close');
    const own = await RawRunner.open(service, runner.token);
    own.socket.send('{"id":1,"call":"log"', { fin: false });
    own.close();
    await assertAnswered({ call: 'access', fields: { claim } });
  });
});
