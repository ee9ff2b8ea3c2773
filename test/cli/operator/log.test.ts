import assert from 'node:assert/strict';
import test from 'node:test';
import { serializeError } from '../../../src/cli/operator/log.ts';

test('of an error its words are logged, and none of the objects that it carries', () => {
  const client = { secretKey: 4711, password: 'hunter2', request: { headers: { authorization: 'Basic x' } } };
  const cause = Object.assign(new Error('the line is dead'), { client, code: 'ECONNRESET' });
  const several = new AggregateError([cause]);
  const error = Object.assign(new Error('it was lost', { cause: several }), { client, code: { client } });
  const { stack, ...written } = serializeError(error) as Exclude<ReturnType<typeof serializeError>, string>;
  assert.match(stack ?? '', /^Error: it was lost\n/);
  assert.equal(written.message, 'it was lost');
  const text = JSON.stringify(serializeError(error));
  assert.match(text, /the line is dead.*ECONNRESET/);
  for (const word of ['4711', 'hunter2', 'Basic', 'client"']) assert.ok(!text.includes(word), word);
  assert.equal(serializeError('as it is'), 'as it is');
  assert.equal(serializeError(client), 'a value that is not an error was thrown: object');
});

test('an error that goes round in a circle has an end', () => {
  const error = new Error('again');
  error.cause = error;
  assert.ok(JSON.stringify(serializeError(error)).length < 20_000);
});
