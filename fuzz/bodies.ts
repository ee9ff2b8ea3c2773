import assert from 'node:assert/strict';
import * as fc from 'fast-check';
import Fastify from 'fastify';
import { ApiError } from '../src/shared/errors.ts';
import { parseForm, parseJson, readBodies } from '../src/server/http/bodies.ts';
import { onlyFile } from '../src/server/http/multipart.ts';
import { repeated, type Raw } from '../src/shared/records/raw.ts';
import { Digits } from '../src/shared/records/fields.ts';
import { mutated, oddBytes } from './mutations.ts';
import { anyProperty, pure, type Target } from './target.ts';

const refused = new Set(['__proto__', 'constructor', 'prototype']);

/** Whatever was sent, it is texts, lists and groups of a few levels, and no name in it means anything to JavaScript. */
function assertTame(raw: Raw, depth = 0): void {
  assert.ok(depth <= 5);
  if (typeof raw === 'string' || typeof raw === 'boolean' || raw === null || raw instanceof Digits || raw === repeated)
    return;
  if (Array.isArray(raw)) {
    for (const item of raw) assertTame(item, depth + 1);
    return;
  }
  assert.equal(typeof raw, 'object');
  assert.equal(Object.getPrototypeOf(raw), null);
  for (const [name, item] of Object.entries(raw)) {
    assert.ok(!refused.has(name), name);
    assertTame(item, depth + 1);
  }
}

const token = fc.constantFrom(
  'a',
  'b',
  '[',
  ']',
  '[]',
  '[a]',
  '=',
  '&',
  '%',
  '%5B',
  '%5D',
  '+',
  '%00',
  '%ff',
  '__proto__',
  'constructor',
  '[__proto__]',
  '{',
  '}',
  '"',
  ':',
  ',',
  '1',
  '1e999',
  'null',
  '\\',
  '\\u0000',
  '\ud800',
);
const text = fc.oneof(
  fc.array(token, { maxLength: 24 }).map((tokens) => tokens.join('')),
  fc.string({ unit: 'binary', maxLength: 60 }),
  fc.json({ maxDepth: 8 }),
  fc.constantFrom(
    '['.repeat(100_000),
    '{"a":'.repeat(5000),
    '&'.repeat(5000),
    'a&'.repeat(2000),
    `a${'[a]'.repeat(1000)}=1`,
  ),
);

export const forms = pure(
  'forms',
  500,
  fc.property(text, (body) => {
    for (const parse of [parseForm, parseJson]) {
      try {
        assertTame(parse(body));
      } catch (error) {
        assert.ok(error instanceof ApiError, String(error));
      }
    }
  }),
);

const boundary = 'edge';
const part = fc
  .tuple(fc.constantFrom('a', 'a[b]', 'a[]', '__proto__', 'a[__proto__]', 'a"; filename="x', '€', ''), oddBytes)
  .map(([name, content]) =>
    Buffer.concat([
      Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n`),
      content,
      Buffer.from('\r\n'),
    ]),
  );
const multipart = fc
  .array(part, { maxLength: 5 })
  .map((parts) => Buffer.concat([...parts, Buffer.from(`--${boundary}--\r\n`)]));

const almostBoundary = fc
  .array(fc.constantFrom('\r', '\n', '-', '--', boundary, `\r\n--`, `\r\n--${boundary.slice(0, 2)}`, 'x', '\0'), {
    maxLength: 30,
  })
  .map((tokens) => tokens.join(''))
  .filter((text) => !text.includes(`\r\n--${boundary}`) && !`\r\n${text}`.includes(`\r\n--${boundary}`))
  .map((text) => Buffer.from(text));
const cuts = fc.array(fc.integer({ min: 1, max: 9 }), { maxLength: 40 });

async function* inPieces(bytes: Buffer, sizes: number[]): AsyncGenerator<Buffer> {
  let at = 0;
  for (const size of [...sizes, bytes.length]) {
    if (at < bytes.length) yield bytes.subarray(at, at + size);
    at += size;
  }
}

async function fileOf(body: Buffer, sizes: number[]): Promise<Buffer> {
  const { content } = await onlyFile(inPieces(body, sizes), `multipart/form-data; boundary=${boundary}`, 'a');
  return Buffer.concat(await Array.fromAsync(content));
}

/** A file in a form comes out as it went in, wherever the network cut it; what is no such form is refused. */
export const formFiles = pure(
  'form-files',
  300,
  fc.asyncProperty(almostBoundary, cuts, mutated(multipart), async (content, sizes, broken) => {
    const head = Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; name="a"\r\n\r\n`);
    const whole = Buffer.concat([head, content, Buffer.from(`\r\n--${boundary}--\r\n`)]);
    assert.deepEqual(await fileOf(whole, sizes), content);
    await assert.rejects(fileOf(whole.subarray(0, -5), sizes), ApiError);
    const taken = await fileOf(broken, sizes).catch((error: unknown) => {
      assert.ok(error instanceof ApiError, String(error));
    });
    if (taken) assert.ok(broken.includes(taken));
  }),
);

/** The whole way of a body through the server: what cannot be understood is refused, and nothing breaks. */
export const bodies: Target = {
  name: 'bodies',
  runs: 200,
  open() {
    const server = Fastify();
    readBodies(server);
    server.post('/', (request) => {
      if (request.body !== undefined) assertTame(request.body as Raw);
      return 'taken';
    });
    server.setErrorHandler(async (error, _, reply) => {
      const known = error instanceof ApiError || (error as { statusCode?: number }).statusCode === 400;
      await reply.status(known ? 400 : 500).send(String(error));
    });
    const types = fc.constantFrom(
      `multipart/form-data; boundary=${boundary}`,
      'multipart/form-data',
      'multipart/form-data; boundary=""',
      'application/json',
      'application/x-www-form-urlencoded',
      'application/octet-stream',
    );
    const property = fc.asyncProperty(types, fc.oneof(mutated(multipart), oddBytes), async (type, body) => {
      const answer = await server.inject({
        method: 'POST',
        url: '/',
        headers: { 'content-type': type },
        payload: body,
      });
      assert.ok(answer.statusCode === 200 || answer.statusCode === 400, answer.body);
    });
    return { property: anyProperty(property), close: () => server.close() };
  },
};
