import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  boolean,
  dateTime,
  id,
  integer,
  listOf,
  nullable,
  object,
  optional,
  string,
} from '../../../src/shared/records/schema.ts';
import { serializer } from '../../../src/server/http/serializer.ts';
import { pageRoutes, routes } from '../../../src/server/resources/index.ts';

describe('the text of an answer', () => {
  const one = object({
    id,
    name: string,
    at: nullable(dateTime),
    count: nullable(integer),
    is: boolean,
    note: optional(string),
  });
  const value = {
    id: 9_223_372_036_854_775_807n,
    name: 'a "b"\n\u2028\ud83d\ude00\ud800',
    at: null,
    count: 3,
    is: true,
  };

  test('is JSON in the order of the schema, with every digit of an identifier', () => {
    const text =
      '{"id":9223372036854775807,"name":"a \\"b\\"\\n\u2028\ud83d\ude00\\ud800","at":null,"count":3,"is":true}';
    assert.equal(serializer(one)(Object.fromEntries(Object.entries(value).toReversed())), text);
    assert.equal(serializer(listOf(one))([value, value]), `[${text},${text}]`);
    assert.equal(serializer(listOf(one))([]), '[]');
  });

  test('has what is optional where it is there, and nothing that the schema does not name', () => {
    const write = serializer(one);
    assert.equal(write({ ...value, note: 'x', secret: 'y' }), write(value).replace('}', ',"note":"x"}'));
  });

  test('lacks nothing that is required', () => {
    const { name, ...rest } = value;
    assert.equal(name, value.name);
    assert.throws(() => serializer(one)(rest), /lacks its field name/);
  });

  test('may hold names that no schema knows, where it says so', () => {
    const counts = { type: 'object', additionalProperties: object({ waiting: integer }) };
    assert.equal(
      serializer(counts)({ 'a"': { waiting: 1, more: 2 }, b: { waiting: 2n } }),
      '{"a\\"":{"waiting":1},"b":{"waiting":2}}',
    );
    assert.equal(
      serializer({ type: 'object', additionalProperties: true })({ a: [1, { b: null }] }),
      '{"a":[1,{"b":null}]}',
    );
  });

  test('is made only of schemas that say what is there', () => {
    assert.throws(() => serializer({ type: ['string', 'integer'] }), /string or integer/);
    assert.throws(() => serializer({ type: 'array' }), /list/);
    assert.throws(() => serializer({}), /cannot be written/);
  });

  test('can be made for every route', () => {
    for (const { answer } of [...routes, ...pageRoutes]) assert.equal(typeof serializer(answer), 'function');
  });
});
