import assert from 'node:assert/strict';
import test from 'node:test';
import { keepTail } from '../../../src/shared/lib/tail.ts';
import { readCommitObject } from '../../../src/runner/git/commit-object.ts';
import { recognize } from '../../../src/runner/git/failures.ts';
import { GitError } from '../../../src/runner/git/git.ts';
import { containsAny, trimEnd } from '../../../src/runner/git/phrases.ts';

test('the messages of ssh and git are recognized', () => {
  assert.equal(recognize("fatal: repository 'x' not found"), 'repository_not_found');
  assert.equal(recognize('ERROR: Repository not found.'), 'repository_not_found');
  assert.equal(recognize('', 'git@host: Permission denied (publickey).'), 'key_refused');
  assert.equal(recognize('fatal: the remote end hung up unexpectedly'), 'connection_lost');
  assert.equal(recognize('', 'ssh: connect to host x port 22: Connection timed out'), 'host_unreachable');
  assert.equal(recognize('fatal: fsck error in packed object'), 'malformed_repository');
  assert.equal(recognize('fatal: bad object refs/heads/main'), undefined);
  assert.equal(recognize('words nobody expects'), undefined);
});

test('the remote’s output is not taken for git’s own findings', () => {
  const hungUp = 'fatal: the remote end hung up unexpectedly';
  assert.equal(recognize(`remote: bad object x\n${hungUp}`), 'connection_lost');
  assert.equal(recognize(hungUp, 'corrupt, bad object, fsck error in pack'), 'connection_lost');
  assert.equal(recognize(`fatal: write error: No space left on device\n${hungUp}`), undefined);
});

test('phrases have gaps, within a line', () => {
  assert.ok(containsAny('a Packfile x CANNOT be', ['packfile … cannot']));
  assert.ok(!containsAny('packfile x\n cannot', ['packfile … cannot']));
  assert.ok(!containsAny('cannot packfile ', ['packfile … cannot']));
  assert.equal(trimEnd('a//', '/'), 'a');
  assert.equal(trimEnd('//', '/'), '');
});

/** Each of these took minutes or hours with expressions that go back and forth. */
test('no words are so long or so odd that to read them takes long', () => {
  const size = 4 * 1024 * 1024;
  const parts = [
    'host key is known for ',
    'repository ',
    'keyword ',
    'packfile ',
    'Connection to ',
    'index file ',
    '\n',
    'x',
  ];
  const used = process.cpuUsage();
  for (const part of parts) {
    const words = Buffer.from(part.repeat(size / part.length));
    recognize(words, words);
    const said = { status: 1, stdout: words, stderr: words, ssh: words, truncated: false, troubles: [] };
    assert.equal(new GitError('x', said).mayBeDamage, true);
  }
  for (const filling of ['\n', ' ', '<', '>', '0 ', 'a\n']) {
    const odd = filling.repeat(size / filling.length);
    readCommitObject(Buffer.from(`tree x\nauthor ${odd}\ncommitter A <a> ${odd}x\n\n${odd}x`));
    readCommitObject(Buffer.from(`tree x\nauthor A <a> 0 +0000\n\n${odd}x`));
    trimEnd(`${odd}x`, filling);
  }
  assert.ok(process.cpuUsage(used).user < 20_000_000, 'of the processor, whatever else it is busy with');
});

test('of a flood the end is kept, and no more', () => {
  const tail = keepTail(1000);
  for (let at = 0; at < 100_000; at += 1) tail.add(Buffer.from(`${at},`));
  assert.ok(tail.bytes().length <= 1000);
  assert.ok(tail.bytes().toString().endsWith('99998,99999,'));
  tail.add(Buffer.alloc(1_000_000, 'x'));
  assert.equal(tail.bytes().toString(), 'x'.repeat(1000));
});
