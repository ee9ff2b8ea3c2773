import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as fc from '../../support/properties.ts';
import {
  isQuick,
  evaluate,
  type Operator,
  type Rule,
  type Texts,
  type Subject,
} from '../../../src/server/lifecycle/rules.ts';
import { fitsOperator, largestExpression } from '../../../src/shared/domain/rule-expressions.ts';
import { operators, subjects } from '../../../src/shared/domain/rule-operators.ts';

const facts: Texts = {
  message: 'Fix the pump\n\nIt leaked.\n',
  branches: JSON.stringify(['main', 'release/1.2']),
  tags: '[]',
  authorName: 'Ada Lovelace',
  authorEmail: 'ada@example.org',
  committerEmail: 'bot@example.org',
  ref: '8f14e45fceea167a5a36dedd4bea2543c4ca4238',
  files: JSON.stringify(['src/pump.ts', 'docs/pump.md', 'README.md']),
  event: 'push',
  targetBranch: 'main',
  fromFork: 'false',
};

const applies = (rules: Rule[], texts: Texts): boolean => {
  const [judged] = evaluate({ suites: [{ id: '1', rules }], texts });
  return judged?.unmet === undefined;
};
const holds = (subject: Subject, operator: Operator, value: string, of = facts): boolean =>
  applies([{ subject, operator, value }], of);

describe('the rules of a suite', () => {
  it('know every subject', () => {
    const found: [Subject, string][] = [
      ['commit.message', 'Fix the pump\n\nIt leaked.\n'],
      ['commit.branches', 'release/1.2'],
      ['commit.author_name', 'Ada Lovelace'],
      ['commit.author_email', 'ada@example.org'],
      ['commit.committer_email', 'bot@example.org'],
      ['commit.ref', '8f14e45fceea167a5a36dedd4bea2543c4ca4238'],
      ['commit.files', 'docs/pump.md'],
      ['request.event', 'push'],
      ['request.target_branch', 'main'],
      ['request.from_fork', 'false'],
    ];
    for (const [subject, value] of found) assert.equal(holds(subject, 'equals', value), true, subject);
    assert.equal(holds('commit.tags', 'equals', 'v1', { ...facts, tags: JSON.stringify(['v0', 'v1']) }), true);
    assert.deepEqual(new Set([...found.map(([subject]) => subject), 'commit.tags']), new Set(subjects));
  });

  const cases: [Operator, string, boolean][] = [
    ['contains', 'pump', true],
    ['contains', 'Pump', false],
    ['contains', '', true],
    ['does_not_contain', 'pump', false],
    ['does_not_contain', 'PUMP', true],
    ['equals', 'Fix the pump', false],
    ['equals', facts.message, true],
    ['does_not_equal', 'Fix the pump', true],
    ['does_not_equal', facts.message, false],
    ['starts_with', 'Fix ', true],
    ['starts_with', 'the', false],
    ['ends_with', 'leaked.\n', true],
    ['ends_with', 'leaked.', false],
    ['matches', '^Fix', true],
    ['matches', 'p[a-z]mp', true],
    ['matches', '^pump$', false],
    ['matches', '(?m)^It leaked\\.$', true],
    ['matches', '(?i)PUMP', true],
    ['matches', 'PUMP', false],
    ['does_not_match', 'p[a-z]mp', false],
    ['does_not_match', 'PUMP', true],
    ['all_match', '^Fix', true],
    ['all_match', '^pump$', false],
    ['not_all_match', '^Fix', false],
    ['not_all_match', '^pump$', true],
  ];
  for (const [operator, value, expected] of cases) {
    it(`say ${expected} to ${operator} ${JSON.stringify(value)}`, () => {
      assert.equal(holds('commit.message', operator, value), expected);
    });
  }

  it('hold for several values when a positive one does for any, and a negative one for none', () => {
    assert.equal(holds('commit.branches', 'equals', 'release/1.2'), true);
    assert.equal(holds('commit.branches', 'does_not_equal', 'release/1.2'), false);
    assert.equal(holds('commit.branches', 'does_not_equal', 'release'), true);
    assert.equal(holds('commit.files', 'ends_with', '.md'), true);
    assert.equal(holds('commit.files', 'does_not_contain', 'pump.ts'), false);
    assert.equal(holds('commit.files', 'matches', '^docs/'), true);
    assert.equal(holds('commit.files', 'does_not_match', '^docs/'), false);
    assert.equal(holds('commit.files', 'does_not_match', '^test/'), true);
    // Each value is looked at alone: nothing is found across two of them.
    assert.equal(holds('commit.files', 'matches', 'ts.*docs'), false);
  });

  it('hold for all values, or not for all of them, where that is what the operator says', () => {
    const documents = { ...facts, files: JSON.stringify(['docs/pump.md', 'README.md']) };
    for (const [of, isDocumentation] of [
      [facts, false],
      [documents, true],
    ] as const) {
      assert.equal(holds('commit.files', 'all_match', '^docs/|\\.md$', of), isDocumentation);
      assert.equal(holds('commit.files', 'not_all_match', '^docs/|\\.md$', of), !isDocumentation);
    }
    assert.equal(holds('commit.files', 'all_match', '^test/'), false);
  });

  it('fail when positive and hold when negative where there is no value', () => {
    for (const operator of operators) {
      assert.equal(holds('commit.tags', operator, 'v'), /^(does_)?not_/.test(operator), operator);
    }
  });

  it('must hold all together', () => {
    const yes = { subject: 'commit.branches', operator: 'equals', value: 'main' } as const;
    const no = { subject: 'commit.branches', operator: 'equals', value: 'other' } as const;
    assert.equal(applies([], facts), true);
    assert.equal(applies([yes, yes], facts), true);
    assert.equal(applies([yes, no], facts), false);
    assert.equal(applies([no, yes], facts), false);
  });

  it('say of a negative operator the opposite of its positive one, whatever the values', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ maxLength: 4 })), fc.string({ maxLength: 3 }), (branches, text) => {
        const on = { ...facts, branches: JSON.stringify(branches) };
        for (const [positive, negative] of [
          ['contains', 'does_not_contain'],
          ['equals', 'does_not_equal'],
          ['matches', 'does_not_match'],
          ['all_match', 'not_all_match'],
        ] as const) {
          const value = positive.endsWith('contains') || positive === 'equals' ? text : RegExp.escape(text);
          const held = holds('commit.branches', positive, value, on);
          assert.equal(held, !holds('commit.branches', negative, value, on));
          const isSo = (branch: string): boolean => (positive === 'equals' ? branch === text : branch.includes(text));
          const expected = positive === 'all_match' ? branches.length > 0 && branches.every(isSo) : branches.some(isSo);
          assert.equal(held, expected);
        }
      }),
    );
  });

  it('match in linear time where a backtracking engine would never end', () => {
    const facts = { message: `${'a'.repeat(50_000)}!` } as Texts;
    for (const value of ['^(a+)+$', '^(a|a)*$', '^(a|aa)+$', '(.*)(.*)(.*)(.*)b', '^(([a-z])+.)+[A-Z]$']) {
      assert.equal(fitsOperator('matches', value), true, value);
      assert.equal(holds('commit.message', 'matches', value, facts), false, value);
    }
  });
});

describe('a rule that is offered', () => {
  it('has an expression of bounded size', () => {
    assert.equal(fitsOperator('matches', 'x'.repeat(largestExpression)), true);
    assert.equal(fitsOperator('matches', 'x'.repeat(largestExpression + 1)), false);
  });

  it('matches by RE2 syntax alone', () => {
    for (const value of ['(', 'a**', '[z-a]', '\\1', '(?=a)', '(?<=a)b', 'x{1001}', '*', '\\', '[']) {
      for (const operator of operators.filter((one) => one.includes('match'))) {
        assert.equal(fitsOperator(operator, value), false, `${operator} ${value}`);
      }
      assert.equal(fitsOperator('contains', value), true, value);
    }
  });

  it('may use what people use', () => {
    for (const value of [
      '^(feat|fix|chore)(\\([a-z-]+\\))?!?: .{1,72}$',
      '[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}',
      '(?i)\\[(skip ci|ci skip)\\]',
      '^v\\d+\\.\\d+\\.\\d+(-rc\\.\\d{1,3})?$',
      '\\p{Greek}+\\x{2028}?',
      '^.{0,200}$',
      '[^]{}(]{2,5}[[:alpha:]]{3}',
      '\\Q{1000}[(\\E',
    ]) {
      assert.equal(fitsOperator('matches', value), true, value);
    }
  });

  it('may not multiply itself beyond measure', () => {
    for (const value of [
      '.{0,1000}'.repeat(3),
      '(abcdefghij){200}',
      '(){900}(){900}',
      '((a{10}b{10}){10}){10}',
      `${'\\pL{500}'.repeat(3)}\\Q(\\E`,
      `\\Q[\\E${'.{1000}'.repeat(3)}]`,
      `[[:alpha:]]{900}${'[^]x]{900}'.repeat(2)}`,
    ]) {
      assert.equal(fitsOperator('matches', value), false, value);
    }
  });
});

describe('judging rules', () => {
  const rule = (value: string, operator: Operator = 'matches'): Rule => ({
    subject: 'commit.message',
    operator,
    value,
  });
  const long = { ...facts, message: 'ab \n'.repeat(16_000) };

  it('is quick where texts and expressions are as people write them', () => {
    const suites = Array.from({ length: 20 }, (_, at) => ({ id: `${at}`, rules: [rule(`^fix(es)? .{0,9}#${at}$`)] }));
    assert.equal(isQuick({ suites, texts: facts }), true);
  });

  it('is not where one rule may take long, nor where there are very many', () => {
    assert.equal(isQuick({ suites: [{ id: '1', rules: [rule('(?s)a.{250}[cd]')] }], texts: long }), false);
    const many = Array.from({ length: 100 }, (_, at) => rule(`word ${at}`, 'contains'));
    assert.equal(isQuick({ suites: [{ id: '1', rules: many }], texts: long }), false);
  });

  it('leaves out and runs what it can when the time is over, and names the rule for the rest', () => {
    const slow = rule('(?s)a.{250}[cd]');
    const suites = [
      { id: 'slow', rules: [slow] },
      { id: 'decided', rules: [slow, rule('nowhere', 'contains')] },
      { id: 'quick', rules: [rule('ab', 'starts_with')] },
    ];
    let looks = 0;
    const judged = evaluate({ suites, texts: long }, () => (looks += 1) > 2); // the two plain rules
    assert.deepEqual(
      judged.map(({ id, slow: named, unmet }) => [id, named ?? unmet?.rule.value]),
      [['slow', slow], ['decided', 'nowhere'], ['quick', undefined]], // oxfmt-ignore
    );
  });
});
