import assert from 'node:assert/strict';
import test from 'node:test';
import { readVariables } from '../../src/runner/added-variables.ts';

const cases: [written: string, variables: Record<string, string>, passedOver: RegExp[]][] = [
  ['', {}, []],
  ['A=1', { A: '1' }, []],
  ['A=1\nA=2\n\nB=\n', { A: '2', B: '' }, []],
  ['A= $HOME "x" \\n=y\r\n', { A: ' $HOME "x" \\n=y\r' }, []],
  ['A<<END\n1\n\n END\nEND\nB=2', { A: '1\n\n END', B: '2' }, []],
  ['A<<=\nx=y\n=\nB<<B\nB', { A: 'x=y', B: '' }, []],
  ['A=x<<END\nB=1', { A: 'x<<END', B: '1' }, []],
  ['PATH=/x\nLD_PRELOAD=y', { PATH: '/x', LD_PRELOAD: 'y' }, []],
  ['A<<END\n1\nB=2', {}, [/^line 1: the word that ends/]],
  ['CI=no\nHEADRACE=1\nHEADRACE_ENV<<E\nx\nE\nA=1', { A: '1' }, [/^line 1: CI is/, /^line 2/, /^line 3/]],
  ['words\n=x\n1A=x\nA B=x\nÄ=x', {}, [/not NAME=value/, /name of a variable/, /name/, /name/, /name/]],
  ['A=\0secret\nB=1', { B: '1' }, [/^line 1: A has a NUL byte$/]],
  [`A=${'x'.repeat(32_769)}`, {}, [/^line 1: A is longer/]],
  ['x\n'.repeat(12), {}, [...Array.from({ length: 10 }, () => /NAME=value/), /^and 2 more$/]],
];

test('what a step writes is taken as it stands, and what is no variable is passed over', () => {
  for (const [written, variables, words] of cases) {
    const read = readVariables(written);
    assert.deepEqual(Object.fromEntries(read.variables), variables, JSON.stringify(written).slice(0, 100));
    assert.equal(read.passedOver.length, words.length, read.passedOver.join(' | '));
    words.forEach((word, at) => assert.match(read.passedOver[at] ?? '', word));
  }
});
