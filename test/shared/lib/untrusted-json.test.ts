import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { encodeMessage, decodeMessage } from '../../../src/shared/protocol/index.ts';
import { readDocument } from '../../../src/shared/documents/document.ts';
import { readFile } from '../../../src/shared/documents/mistakes.ts';
import {
  modest,
  readUntrustedJson,
  readUntrustedObject,
  UnreadableJsonError,
} from '../../../src/shared/lib/untrusted-json.ts';
import { json } from '../../../src/runner/images/documents.ts';

const brackets = '['.repeat(1_000_000) + ']'.repeat(1_000_000);
const lists = `[${'[],'.repeat(600_000)}0]`;
const names = `{${Array.from({ length: 100_000 }, (_, at) => `"n${at}":0`).join(',')}}`;
const huge = { brackets, lists, names, open: '{"a":'.repeat(300_000) };

/** None of these texts is given to the parser: it would keep the thread for up to a second. */
function assertUnparsed(t: TestContext, read: (text: string) => unknown): void {
  const parse = t.mock.method(JSON, 'parse');
  for (const [name, text] of Object.entries(huge)) assert.throws(() => read(text), name);
  assert.equal(parse.mock.callCount(), 0);
  parse.mock.restore();
}

describe('JSON of strangers', () => {
  test('is read as it is', () => {
    for (const value of [null, 7, 'a "quote" [ { , : \\', [1, [2, { a: '\u0000' }]], { '': {}, '"': [] }])
      assert.deepEqual(readUntrustedJson(JSON.stringify(value)), value);
    assert.throws(() => readUntrustedJson('{'), UnreadableJsonError);
    for (const text of ['null', '[]', '7', '"x"']) assert.throws(() => readUntrustedObject(text), UnreadableJsonError);
  });

  test('has a limit on depth, on values and on names [promise: untrusted-input]', () => {
    const nested = (depth: number): string => '['.repeat(depth) + ']'.repeat(depth);
    const list = (values: number): string => `[${Array(values - 1).fill(0).join(',')},0]`; // oxfmt-ignore
    const named = (count: number): string => `{${Array.from({ length: count }, (_, at) => `"${at}":0`).join(',')}}`;
    for (const [make, most] of [
      [nested, modest.depth],
      [list, modest.values],
      [named, modest.names],
    ] as const) {
      // oxfmt-ignore
      assert.ok(readUntrustedJson(make(most)));
      assert.throws(() => readUntrustedJson(make(most + 1)), UnreadableJsonError);
    }
    assert.ok(readUntrustedJson(JSON.stringify([brackets, names])), 'in a text they cost nothing');
  });

  test('is refused unparsed where it is a message of a runner [promise: untrusted-input]', (t) => {
    assertUnparsed(t, (text) => decodeMessage(Buffer.from(text), false));
    assertUnparsed(t, (text) => decodeMessage(Buffer.from(`{"id":1,"call":"gone","projects":${text}}`), false));
    assertUnparsed(t, (text) => decodeMessage(Buffer.from(`${text}\nbytes`), true));
    const whole = encodeMessage({ id: 1, call: 'finish', bytes: Buffer.from(brackets) });
    assert.ok(decodeMessage(whole as Buffer, true).bytes);
  });

  test('is refused unparsed in an image, in a document and in a file of a repository [promise: untrusted-input]', async (t) => {
    assertUnparsed(t, (text) => json(Buffer.from(text)));
    assertUnparsed(t, readDocument);
    const parse = t.mock.method(JSON, 'parse');
    for (const text of Object.values(huge)) await assert.rejects(readFile(text, 'ci.json', assert.fail));
    assert.equal(parse.mock.callCount(), 0);
  });
});
