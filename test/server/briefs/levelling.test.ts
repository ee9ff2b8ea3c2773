import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  hashOfLine,
  hashOfSpan,
  level,
  levelled,
  longestCompared,
  readable,
} from '../../../src/server/briefs/levelling.ts';

describe('levelling', () => {
  for (const [name, { examples }] of Object.entries(levelled))
    test(`${name}: what changes from run to run does not count`, () => {
      const [first, ...others] = examples.map(level);
      for (const other of others) assert.equal(other, first);
      assert.ok(examples.every((line) => level(line).includes('#')));
    });

  const different: [string, string][] = [
    ['PASS src/queue.test.ts', 'PASS src/lines.test.ts'],
    ['ok', 'not ok'],
    ['error: alpha', 'error: beta'],
    ['took 3 s', 'failed after 3 s'],
    ['3 passed', '3 failed'],
    ['May the force', 'March'],
  ];
  for (const [one, other] of different) test(`${one} is not ${other}`, () => assert.notEqual(level(one), level(other)));

  test('the width of a column does not count', () => {
    assert.equal(level('[  9%] Building  x.c'), level('[100%] Building  x.c'));
    assert.equal(level('rows 1, 22, 3'), level('rows 100'));
  });

  test('a place in a file is levelled, and its message is not', () => {
    assert.equal(level('src/main.c:12:5: error: no x'), level('src/main.c:7:42: error: no x'));
    assert.notEqual(level('src/main.c:12:5: error: no x'), level('src/main.c:12:5: error: no y'));
  });

  test('a line is compared as a terminal shows it at the end', () => {
    assert.equal(readable('10%\r50%\r\u001B[32mdone\u001B[0m\r'), 'done');
    assert.equal(readable('a\u202Eb\u200Bc\u0000d'), 'abcd');
  });

  test('a hash is that of the levelled line, wherever it is read', () => {
    const text = 'one 1\ntwo 2\nthree \u00E9\n\n';
    assert.equal(hashOfSpan(text, 6, 11), hashOfLine('two 99'));
    assert.notEqual(hashOfLine('two 2'), hashOfLine('one 1'));
    assert.equal(hashOfSpan(text, 12, 19), undefined);
    assert.equal(hashOfLine('   '), 0);
  });

  test('no line takes long, however it is made', () => {
    const parts = [
      '/',
      '1:',
      'a',
      'a1',
      '/a',
      'Mon ',
      '-',
      '1',
      'tmp',
      'ab:',
      ' #',
      '1-',
      'a/',
      ' /a',
      '1111111-',
      '=',
      '0x',
      'sha1:',
      '\u2588',
      '1,',
      '9 ',
    ];
    for (const part of parts) {
      const line = part.repeat(100_000);
      const beganAt = process.cpuUsage();
      for (let turn = 0; turn < 100; turn += 1) hashOfLine(line);
      assert.ok(process.cpuUsage(beganAt).user < 500_000, part);
      assert.ok(level(line).length <= longestCompared + 1);
    }
  });
});
