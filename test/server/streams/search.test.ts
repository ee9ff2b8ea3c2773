import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { array, assert as holds, constantFrom, property } from '../../support/properties.ts';
import { RE2JS } from 're2js';
import { failureExpression, failurePatterns } from '../../../src/server/streams/failures.ts';
import { fitsOperator } from '../../../src/shared/domain/rule-expressions.ts';
import { isExpression, LineMatcher } from '../../../src/server/streams/line-matcher.ts';
import { requiredTexts } from '../../../src/server/streams/required-text.ts';
import { createSearchThread } from '../../../src/server/streams/search.ts';

const expressions = [
  'abc',
  'a+b',
  'ab?c',
  'a(b|c)d',
  'ab|cd|e',
  'a{0,2}bc',
  'a{2}b',
  '(?i)kAs',
  '(?i)a|b',
  '^a',
  'c$',
  '[ab]c',
  'a.c',
  String.raw`a\.c`,
  String.raw`\bab\b`,
  '(ab)*c',
  '(ab)+c',
  '(?:a|)b',
  'é',
];
const letters = constantFrom(
  'a',
  'b',
  'c',
  'd',
  'k',
  'K',
  's',
  'A',
  'B',
  '.',
  ' ',
  'é',
  '\u212a',
  '\u017f',
  '\n',
  '\n',
  '\x1b[31m',
  '\x1b[0m',
  '\x1b]8;;x\x07',
  '\r',
);

describe('the search in lines', () => {
  test('finds exactly the lines that the expression matches, whatever is looked for first', () => {
    const tried = expressions.map((expression) => ({
      expression,
      matcher: new LineMatcher(expression),
      re: RE2JS.compile(expression),
    }));
    holds(
      property(array(letters, { maxLength: 60 }), (parts) => {
        const text = parts.join('');
        const lines = text.split('\n');
        // oxlint-disable-next-line no-control-regex -- the sequences that are not seen
        const seen = lines.map((line) => line.replaceAll(/\x1b(?:\[[\d;]*m|\][^\x07]*\x07)/g, ''));
        for (const { expression, matcher, re } of tried) {
          const { found } = matcher.search(Buffer.from(text), 1000, () => false);
          const expected = seen.flatMap((line, at) => (line !== '' && re.test(line) ? [at] : []));
          const given = found.map(({ line }) => line).filter((at) => seen[at] !== '');
          assert.deepEqual(given, expected, `${expression} in ${JSON.stringify(text)}`);
          for (const { line, start, end } of found) {
            assert.equal(Buffer.from(text).toString('utf8', start, end), lines[line], 'the line as it is');
          }
        }
      }),
      { numRuns: 300 },
    );
  });

  test('looks for words where an expression has some', () => {
    assert.deepEqual(requiredTexts('error: .* in (?:foo|bar)'), {
      texts: ['error: '],
      ignoresCase: false,
      isAll: false,
    });
    assert.deepEqual(requiredTexts('needle'), { texts: ['needle'], ignoresCase: false, isAll: true });
    assert.equal(requiredTexts(String.raw`\d+`), undefined);
    assert.equal(requiredTexts('a*|b'), undefined);
    assert.ok((requiredTexts(failureExpression)?.texts.length ?? 0) >= failurePatterns.length);
  });

  test('reads no expression whose classes alone would hold up everybody [promise: untrusted-input]', () => {
    const last = '\u{1e942}';
    const wide = [`B-${last}`, String.raw`\x{41}-\x{1e942}`, String.raw`\d-a-${last}`, `a-b--${last}`];
    const hostile = [
      ...wide.flatMap((range) => [`(?i)[${range.repeat(40)}]`, '(?i)'.concat(`[${range}]`.repeat(40))]),
      `(?i:[[:alpha:]${`B-${last}`.repeat(2)}])`,
      `[${String.raw`\PL`.repeat(300)}]`,
    ];
    for (const expression of hostile) {
      assert.equal(isExpression(expression), false, expression);
      assert.equal(fitsOperator('matches', expression), false, expression);
    }
    const usual = ['(?i)[a-zа-яё]+', String.raw`(?i)[\x{80}-\x{10ffff}]`, String.raw`\p{L}{1,40}`, '[一-龥]{1,9}'];
    for (const expression of usual) {
      assert.equal(isExpression(expression), true, expression);
      assert.equal(fitsOperator('matches', expression), true, expression);
    }
  });

  test('looks for no further places in a line that took long, and tells of the line all the same', () => {
    const matcher = new LineMatcher(`${'(.*)'.repeat(99)}b|a`);
    const { found } = matcher.search(Buffer.from('a'.repeat(16 * 1024)), 10, () => false);
    assert.deepEqual(found[0]?.ranges.slice(0, 2), [0, 1]);
    assert.ok((found[0]?.ranges.length ?? 0) < 40, 'twenty places would take twenty times as long');
  });

  test('knows the lines that report a failure', () => {
    const expression = RE2JS.compile(failureExpression);
    for (const line of [
      'src/a.c:1:2: error: no',
      '--- FAIL: TestA',
      'not ok 3 - x',
      'make: *** [all] Error 2',
      'AssertionError: 1',
    ])
      assert.ok(expression.test(line), line);
    for (const line of ['0 errors', 'terror: none', 'no failures', 'FAILSAFE on', 'ok 3'])
      assert.ok(!expression.test(line), line);
  });
});

describe('the threads in which logs are searched', () => {
  test('serve accounts by turns, refuse who has too much waiting, and survive what they cannot read', async () => {
    const threads = createSearchThread();
    const task = (expression = 'x') => ({
      expression,
      bytes: new Uint8Array(Buffer.alloc(64 * 1024, 'y\n')),
      limit: 10,
      milliseconds: 1000,
    });
    try {
      await assert.rejects(threads.ask(1n, task('(')), 'what cannot be read is told');
      // A thread that has yet to start would delay whichever task it gets.
      await Promise.all([threads.ask(3n, task()), threads.ask(3n, task())]);
      const served: string[] = [];
      const greedily = (): Promise<unknown> =>
        threads.ask(1n, task()).then(
          () => served.push('greedy'),
          (error: Error) => error.name,
        );
      const first = Array.from({ length: 8 }, greedily);
      const modest = threads.ask(2n, task()).then(() => served.push('modest'));
      const more = await Promise.all(Array.from({ length: 8 }, greedily));
      assert.ok(more.includes('BusyThreadError'), 'one account cannot have everything');
      await Promise.all([...first, modest]);
      assert.ok(served.indexOf('modest') <= 3, served.join(' '));
    } finally {
      await threads.close();
    }
  });
});

test('a server that stops tells those who wait for a search, and begins no other', async () => {
  const threads = createSearchThread();
  const task = () => ({ expression: 'x', bytes: new Uint8Array(10), limit: 1, milliseconds: 100 });
  const waiting = [1, 2, 3].map(() => threads.ask(1n, task()));
  const ended = Promise.allSettled(waiting);
  await threads.close();
  assert.deepEqual(
    (await ended).map(({ status }) => status),
    ['rejected', 'rejected', 'rejected'],
  );
});
