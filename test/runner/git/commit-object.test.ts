import assert from 'node:assert/strict';
import test from 'node:test';
import { formatDate, readCommitObject } from '../../../src/runner/git/commit-object.ts';

test('dates keep the offset of their author', () => {
  assert.equal(formatDate(1_794_693_164, '+0200'), '2026-11-14T23:52:44+02:00');
  assert.equal(formatDate(1_794_693_164, '+0000'), '2026-11-14T21:52:44+00:00');
  assert.equal(formatDate(1_794_693_164, '+0545'), '2026-11-15T03:37:44+05:45');
  assert.equal(formatDate(1_794_693_164, '-0330'), '2026-11-14T18:22:44-03:30');
  assert.equal(formatDate(-86_400, '-0100'), '1969-12-30T23:00:00-01:00');
});

test('dates that no calendar has are brought back into one', () => {
  assert.equal(formatDate(1_794_693_164, '+9999'), '2026-11-14T21:52:44+00:00');
  assert.equal(formatDate(1_794_693_164, '+051800'), '2026-11-14T21:52:44+00:00');
  for (const seconds of [1e18, -1e18, Number.MAX_VALUE]) {
    assert.match(formatDate(seconds, '+1400'), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+14:00$/);
    assert.match(formatDate(seconds, '-1400'), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d-14:00$/);
  }
});

function commit(author: string, message: string | Buffer = 'Work\n', more = ''): Buffer {
  const header = `tree ${'0'.repeat(40)}\nauthor ${author}\ncommitter C <c@example.test> 0 +0000\n${more}\n`;
  return Buffer.concat([Buffer.from(header, 'latin1'), Buffer.from(message)]);
}

function authorOf(line: string): string[] {
  const { authorName, authorEmail, authoredDate } = readCommitObject(commit(line));
  return [authorName, authorEmail, authoredDate.slice(0, 10)];
}

function messageOf(message: Buffer, more = ''): string {
  return readCommitObject(commit('A <a> 0 +0000', message, more)).message;
}

test('odd authors are read as far as they go', () => {
  assert.deepEqual(authorOf('A B <a@example.test> 86400 +0000'), ['A B', 'a@example.test', '1970-01-02']);
  assert.deepEqual(authorOf(' <a@example.test> 86400 +0000'), ['', 'a@example.test', '1970-01-02']);
  assert.deepEqual(authorOf('<> 86400 +0000'), ['', '', '1970-01-02']);
  assert.deepEqual(authorOf('A <a> b> 86400 +0000'), ['A', 'a', '1970-01-02']);
  assert.deepEqual(authorOf('A <a@example.test> -86400 +0000'), ['A', 'a@example.test', '1969-12-31']);
  assert.deepEqual(authorOf('A <a@example.test>'), ['A', 'a@example.test', '1970-01-01']);
  assert.deepEqual(authorOf('nonsense'), ['', '', '1970-01-01']);
});

test('messages become UTF-8, whatever they were', () => {
  assert.equal(messageOf(Buffer.from('Grüße\n\nmehr\n\n')), 'Grüße\n\nmehr');
  assert.equal(messageOf(Buffer.from('Gr\xfc\xdfe\n', 'latin1'), 'encoding ISO-8859-1\n'), 'Grüße');
  assert.equal(messageOf(Buffer.from([0x8f, 0xd7, 0xb8]), 'encoding CP850-unheard-of\n').length > 0, true);
  assert.equal(messageOf(Buffer.from([0x61, 0xff, 0xfe, 0x0a])), 'a\uFFFD\uFFFD');
  assert.equal(messageOf(Buffer.from('a\0b')), 'a\uFFFDb');
  assert.equal(messageOf(Buffer.alloc(0)), '');
  assert.equal(readCommitObject(Buffer.from('tree x\nauthor A <a> 0 +0000')).message, '');
});

test('a signature is no part of the message, nor are its lines headers', () => {
  const signature = 'gpgsig -----BEGIN\n author Mallory <m@example.test> 0 +0000\n -----END\n';
  const read = readCommitObject(commit('A <a> 0 +0000', 'Signed\n', signature));
  assert.deepEqual([read.message, read.authorName], ['Signed', 'A']);
});

test('of texts that are very long the beginning is read, and it is said', () => {
  const long = messageOf(Buffer.from(`Mend the sluice\n\n${'é'.repeat(1_000_000)}`));
  assert.ok(Buffer.byteLength(long) <= 64 * 1024, `${Buffer.byteLength(long)}`);
  assert.match(long, /^Mend the sluice\n\né+\n\n\[The message is longer\. This is its beginning\.\]$/);
  const [name = '', email = ''] = authorOf(`${'A'.repeat(5000)} <${'b'.repeat(5000)}> 86400 +0000`);
  assert.match(name, /^A{1000,1021}…$/);
  assert.match(email, /^b{1000,1021}…$/);
});
