/*
 * Decides which commits a suite runs on. All its rules must match.
 *
 * Texts are compared exactly, with case. A positive operator matches if any value of the subject does (`all_match`:
 * every value). A negative operator matches if its opposite does not. So without values, every positive rule fails and
 * every negative one matches.
 *
 * A user writes the expression of `matches`, and anyone who can push writes the text. So the engine is linear in the
 * text, without back-references and look-around. An expression can still multiply itself (`.{1000}.{1000}…`), so its
 * size is limited as well.
 */

import { expressionSize } from '../../shared/lib/expression-size.ts';
import { engine, isExpression } from '../../shared/domain/rule-expressions.ts';
import { operators, subjects } from '../../shared/domain/rule-operators.ts';

export type Subject = (typeof subjects)[number];
export type Operator = (typeof operators)[number];

export interface Rule {
  subject: Subject;
  operator: Operator;
  value: string;
}

/** As in the rows: lists are JSON. */
export interface Texts {
  message: string;
  branches: string;
  tags: string;
  files: string;
  authorName: string;
  authorEmail: string;
  committerEmail: string;
  ref: string;
  event: string;
  targetBranch: string;
  fromFork: string;
}

export interface Question {
  suites: readonly { id: string; rules: readonly Rule[] }[];
  texts: Texts;
}

export interface Unmet {
  rule: Rule;
  values: string[];
  count: number;
}

/** Without `unmet` and `slow`, the suite runs. */
export interface RuleResult {
  id: string;
  unmet?: Unmet;
  /** This rule took too long, so the result is unknown. */
  slow?: Rule;
}

/** Once `isOver`, the rest counts as slow. Cheap rules come first, so a slow rule stops only its own suite. */
export function evaluate({ suites, texts }: Question, isOver: () => boolean = () => false): RuleResult[] {
  const lists = new Map<Subject, readonly string[]>();
  const valuesOf = (subject: Subject): readonly string[] => {
    const known = lists.get(subject) ?? valuesIn(subject, texts);
    lists.set(subject, known);
    return known;
  };
  const verdictOn = (rule: Rule): Omit<RuleResult, 'id'> | undefined => {
    const values = valuesOf(rule.subject);
    const isMet = meets(rule, values, isOver);
    if (isMet === undefined) return { slow: rule };
    if (isMet) return undefined;
    return { unmet: { rule, values: values.slice(0, mostValues).map(shortened), count: values.length } };
  };
  const verdicts = new Map<string, Omit<RuleResult, 'id'>>();
  const evaluateSuite = (suite: Question['suites'][number], isPlain: boolean): void => {
    for (const rule of suite.rules) {
      if (verdicts.has(suite.id)) return;
      const verdict = isExpression(rule.operator) !== isPlain ? verdictOn(rule) : undefined;
      if (verdict) verdicts.set(suite.id, verdict);
    }
  };
  for (const suite of suites) evaluateSuite(suite, true);
  const costs = new Map(suites.map((suite) => [suite, costOf(suite.rules, texts)]));
  const byCost = suites.toSorted((a, b) => (costs.get(a) ?? 0) - (costs.get(b) ?? 0));
  for (const suite of byCost) evaluateSuite(suite, false);
  return suites.map(({ id }) => ({ id, ...verdicts.get(id) }));
}

const mostValues = 5;
const longestShown = 100;

export function shortened(value: string): string {
  return value.length > longestShown ? `${value.slice(0, longestShown).toWellFormed()}…` : value;
}

export function ruleText({ subject, operator, value }: Rule): string {
  return `${subject} ${operator.replaceAll('_', ' ')} ${shortened(value)}`;
}

export function tooSlow(rule: Rule): string {
  return `No suite ran: the rule ${ruleText(rule)} takes too long to check against this commit.`;
}

/**
 * Whether the evaluation is certainly quick, for any expressions and texts. One unit is an atom at one character and
 * takes at most a quarter of a microsecond.
 */
export function isQuick({ suites, texts }: Question): boolean {
  let cost = 0;
  return suites.every(({ rules }) => {
    cost += costOf(rules, texts, mostUnits);
    return cost <= mostUnits;
  });
}

const mostUnits = 100_000;

/** Stops adding at `most`. */
function costOf(rules: readonly Rule[], texts: Texts, most = Infinity): number {
  let cost = 0;
  for (const { subject, operator, value } of rules) {
    const length = texts[textOf[subject]].length;
    // Compiling an atom costs as much as fifty characters. Plain texts are searched much faster.
    cost += isExpression(operator) ? expressionSize(value) * (length + 50) : length / 10 + value.length + 10;
    if (cost > most) break;
  }
  return cost;
}

const textOf: Record<Subject, keyof Texts> = {
  'commit.message': 'message',
  'commit.branches': 'branches',
  'commit.tags': 'tags',
  'commit.author_name': 'authorName',
  'commit.author_email': 'authorEmail',
  'commit.committer_email': 'committerEmail',
  'commit.ref': 'ref',
  'commit.files': 'files',
  'request.event': 'event',
  'request.target_branch': 'targetBranch',
  'request.from_fork': 'fromFork',
};

function valuesIn(subject: Subject, texts: Texts): readonly string[] {
  const text = texts[textOf[subject]];
  if (subject === 'commit.branches' || subject === 'commit.tags' || subject === 'commit.files')
    return JSON.parse(text) as string[];
  return subject === 'request.target_branch' && text === '' ? [] : [text];
}

/** Undefined if the time ended before the result was known. */
function meets({ operator, value }: Rule, values: readonly string[], isOver: () => boolean): boolean | undefined {
  const { compare, isForAll = false, isNegative = false } = meanings[operator];
  const holds = compare(value); // made once for all values: a commit may have changed thousands of files
  for (const text of values) {
    if (isOver()) return undefined;
    if (holds(text) !== isForAll) return isForAll === isNegative;
  }
  return (isForAll && values.length > 0) !== isNegative;
}

type Comparison = (value: string) => (text: string) => boolean;

const containing: Comparison = (value) => (text) => text.includes(value);
const equalling: Comparison = (value) => (text) => text === value;
const matching: Comparison = (value) => {
  const expression = engine().compile(value);
  return (text) => expression.test(text);
};

/** A negative operator matches if the same comparison does not. */
const meanings: Record<Operator, { compare: Comparison; isForAll?: boolean; isNegative?: boolean }> = {
  contains: { compare: containing },
  does_not_contain: { compare: containing, isNegative: true },
  equals: { compare: equalling },
  does_not_equal: { compare: equalling, isNegative: true },
  starts_with: { compare: (value) => (text) => text.startsWith(value) },
  ends_with: { compare: (value) => (text) => text.endsWith(value) },
  matches: { compare: matching },
  does_not_match: { compare: matching, isNegative: true },
  all_match: { compare: matching, isForAll: true },
  not_all_match: { compare: matching, isForAll: true, isNegative: true },
};
