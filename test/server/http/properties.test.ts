import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import * as fc from '../../support/properties.ts';
import { parseForm, parseJson } from '../../../src/server/http/bodies.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import type { User } from '../../support/user.ts';
import { buildWorld, type World } from '../../support/world.ts';
import { routes } from '../../../src/server/resources/index.ts';

type Value = string | Value[] | { [name: string]: Value };

/** As a browser or curl would send it. */
function encode(group: Record<string, Value>): string {
  const pairs: string[] = [];
  const add = (name: string, value: Value): void => {
    if (typeof value === 'string') pairs.push(`${encodeURIComponent(name)}=${encodeURIComponent(value)}`);
    else if (Array.isArray(value)) for (const item of value) add(`${name}[]`, item);
    else for (const [inner, item] of Object.entries(value)) add(`${name}[${inner}]`, item);
  };
  for (const [name, value] of Object.entries(group)) add(name, value);
  return pairs.join('&');
}

/** Without the missing prototypes, which are not what is compared. */
const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

describe('a bracketed form', () => {
  const special = new Set(['__proto__', 'constructor', 'prototype']);
  const name = fc
    .string({ unit: 'grapheme', minLength: 1, maxLength: 8 })
    .filter((text) => !/[[\]]/.test(text) && !special.has(text) && text.isWellFormed());
  const text = fc.string({ unit: 'grapheme' });
  const list = fc.array(text, { minLength: 1, maxLength: 4 });
  const inner = fc.dictionary(name, fc.oneof(text, list), { minKeys: 1, maxKeys: 4 });
  const group = fc.dictionary(name, fc.oneof(text, list, inner), { maxKeys: 6 });

  test('is read back as what was encoded', () => {
    fc.assert(fc.property(group, (value) => assert.deepEqual(plain(parseForm(encode(value as never))), plain(value))));
  });

  test('means the same as JSON', () => {
    fc.assert(
      fc.property(group, (value) =>
        assert.deepEqual(plain(parseJson(JSON.stringify(value))), plain(parseForm(encode(value as never)))),
      ),
    );
  });
});

describeServiceOnOne('no input at all', (service) => {
  let alice: User;
  let world: World;
  before(async () => {
    alice = await service.user();
    world = await buildWorld(service, alice);
  });

  const allowed = new Set([200, 201, 400, 401, 403, 404]);
  const types = fc.constantFrom(
    'application/json',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'text/plain',
    '',
  );
  const writing = routes
    .filter(({ method }) => method === 'POST' || method === 'PUT')
    .filter(({ path }) => path !== '/api_key'); // it takes no fields, and the key that all calls here are made with
  const fields = [...new Set(writing.flatMap(({ body }) => Object.keys(body ?? {})))];
  const odd = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.string({ unit: 'grapheme' }),
    fc.constantFrom('', ' ', '\0', '-1', '1e999', '9'.repeat(40), '\u{10ffff}', '%', '/', '../..', 'x'.repeat(3000)),
  );

  test('as a body makes the service fail [promise: untrusted-input]', async () => {
    const bytes = fc.uint8Array({ maxLength: 300 });
    const pairs = fc
      .array(fc.tuple(fc.constantFrom(...fields), odd), { maxLength: 8 })
      .map((list) => Buffer.from(list.map((pair) => pair.map((one) => escape(one)).join('=')).join('&')));
    const json = fc
      .dictionary(fc.constantFrom(...fields, 'options'), fc.oneof(odd, fc.jsonValue()))
      .map((value) => Buffer.from(JSON.stringify(value)));
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...writing), types, fc.oneof(bytes, pairs, json), async (route, type, body) => {
        const answer = await service.api.ask(route.method, world.path(route.path), {
          as: alice.credentials,
          headers: type === '' ? {} : { 'content-type': type },
          body,
        });
        assert.ok(allowed.has(answer.status), `${answer.status} ${answer.text}`);
      }),
      { numRuns: 250 },
    );
  });

  test('as a query or a path makes the service fail [promise: untrusted-input]', async () => {
    const reading = routes.filter(({ method, connects }) => method === 'GET' && !connects);
    const names = fc.constantFrom('limit', 'before', 'after', 'callback', 'name', 'a[b]', '[', '__proto__');
    const query = fc
      .array(fc.tuple(names, odd), { maxLength: 4 })
      .map((list) => list.map(([name, value]) => `${name}=${escape(value)}`).join('&'));
    const path = fc.array(odd.map(escape), { maxLength: 5 }).map((parts) => `/${parts.join('/')}`);
    const anyPath = fc.oneof(
      path,
      fc.constantFrom(...reading).map((route) => world.path(route.path)),
    );
    await fc.assert(
      fc.asyncProperty(anyPath, query, async (at, search) => {
        const answer = await alice.get(`${at}?${search}`);
        assert.ok(allowed.has(answer.status), `${answer.status} ${answer.text}`);
        assert.ok(answer.headers['x-request-id']);
      }),
      { numRuns: 250 },
    );
  });

  /** Printable, and now and then not valid: half a character has no encoding. */
  function escape(text: string): string {
    return text.isWellFormed() ? encodeURIComponent(text) : '%ed%a0%80';
  }
});
