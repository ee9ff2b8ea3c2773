import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createRecentChunks } from '../../src/streams/recent-chunks.ts';

describe('the chunk of a log that was stored last', () => {
  const text = (bytes: Buffer | undefined): string | undefined => bytes?.toString();

  test('serves what lies in it, and nothing else', () => {
    const recent = createRecentChunks();
    recent.note(1n, 10n, Buffer.from('hello\n'));
    assert.equal(text(recent.find(1n, 10n, 16n)), 'hello\n');
    assert.equal(text(recent.find(1n, 12n, 15n)), 'llo');
    assert.equal(recent.find(1n, 9n, 16n), undefined, 'it begins before');
    assert.equal(recent.find(1n, 10n, 17n), undefined, 'it ends after');
    assert.equal(recent.find(2n, 10n, 16n), undefined, 'it is another log');
    recent.note(1n, 16n, Buffer.from('you\n'));
    assert.equal(recent.find(1n, 10n, 16n), undefined);
    assert.equal(text(recent.find(1n, 16n, 20n)), 'you\n');
  });

  test('stays as it was when its memory is used again', () => {
    const recent = createRecentChunks();
    const memory = Buffer.from('hello\n');
    recent.note(1n, 0n, memory);
    memory.fill('x');
    assert.equal(text(recent.find(1n, 0n, 6n)), 'hello\n');
  });

  test('is kept of few logs, and not where it is long', () => {
    const recent = createRecentChunks();
    for (let log = 0n; log < 1000n; log += 1n) recent.note(log, 0n, Buffer.from('hello\n'));
    assert.equal(recent.find(0n, 0n, 6n), undefined);
    assert.equal(text(recent.find(999n, 0n, 6n)), 'hello\n');
    recent.note(999n, 6n, Buffer.alloc(1024 * 1024));
    assert.equal(recent.find(999n, 6n, 7n), undefined);
    assert.equal(recent.find(999n, 0n, 6n), undefined, 'which is not the last one any more');
  });
});
