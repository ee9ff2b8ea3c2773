/*
 * The rules of a suite: which commits it runs on. All rules of a suite must hold.
 *
 * Texts are compared exactly, with their case. A subject may have several values, or none: a commit is on many
 * branches, and may have no tag. A positive operator holds when it holds for any of the values, a negative one when its
 * opposite holds for none; so without values every positive rule fails and every negative one holds.
 *
 * `matches` looks for a regular expression anywhere in the value (`^` and `$` tie it to the ends). The expression comes
 * from a user and the text from anybody who can push, so it runs in an engine whose time is linear in the text, which
 * has neither back-references nor look-around. Linear in the text is not enough when the expression multiplies itself
 * (`.{1000}.{1000}…`), so its size is bounded as well.
 */

import { createRequire } from 'node:module';
import type { RE2JS } from 're2js';
import { expressionSize } from '../lib/expression-size.ts';

/** Loaded when the first expression is met: most servers never meet one, and it takes several megabytes. */
function engine(): typeof RE2JS {
  return (createRequire(import.meta.url)('re2js') as { RE2JS: typeof RE2JS }).RE2JS;
}

export const subjects = [
  'commit.message',
  'commit.branches',
  'commit.tags',
  'commit.author_name',
  'commit.author_email',
  'commit.committer_email',
  'commit.ref',
  'commit.files',
  'request.event',
  'request.target_branch',
  'request.from_fork',
] as const;
export type Subject = (typeof subjects)[number];

export const operators = [
  'contains',
  'does_not_contain',
  'equals',
  'does_not_equal',
  'starts_with',
  'ends_with',
  'matches',
] as const;
export type Operator = (typeof operators)[number];

export interface Rule {
  subject: Subject;
  operator: Operator;
  value: string;
}

export interface CommitFacts {
  message: string;
  branches: readonly string[];
  tags: readonly string[];
  authorName: string;
  authorEmail: string;
  committerEmail: string;
  /** The full SHA. */
  ref: string;
  /** The paths changed against the first parent. */
  files: readonly string[];
  /** The event that started the build: a push, a schedule, a user. */
  event: string;
  /** Empty where no branch was pushed to and there is no pull request. */
  targetBranch: string;
  isFromFork: boolean;
}

export const longestValue = 1000;

/**
 * The size limit of an expression, in atoms after repetitions are written out. People's expressions have some dozens.
 * The worst expression of this size takes some tens of microseconds per character of the text.
 */
export const largestExpression = 300;

/** The fields of a rule that are wrong; empty when the rule can be stored. */
export function wrongFields(subject: string, operator: string, value: string): (keyof Rule)[] {
  const wrong: (keyof Rule)[] = [];
  if (!(subjects as readonly string[]).includes(subject)) wrong.push('subject');
  if (!(operators as readonly string[]).includes(operator)) wrong.push('operator');
  const usable = value.trim() !== '' && value.length <= longestValue;
  if (!usable || (operator === 'matches' && !compiles(value))) wrong.push('value');
  return wrong;
}

export function validRule(subject: string, operator: string, value: string): boolean {
  return wrongFields(subject, operator, value).length === 0;
}

/** Whether a suite with these rules runs on a commit. A suite without rules runs on every commit. */
export function applies(rules: readonly Rule[], facts: CommitFacts): boolean {
  return rules.every((rule) => isMet(rule, facts));
}

/** The first rule that keeps a suite from running on a commit, and the commit's values for it. */
export function unmetRule(
  rules: readonly Rule[],
  facts: CommitFacts,
): { rule: Rule; values: readonly string[] } | undefined {
  const rule = rules.find((one) => !isMet(one, facts));
  return rule && { rule, values: valuesOf[rule.subject](facts) };
}

function isMet({ subject, operator, value }: Rule, facts: CommitFacts): boolean {
  return holds[operator](valuesOf[subject](facts), value);
}

const valuesOf: Record<Subject, (facts: CommitFacts) => readonly string[]> = {
  'commit.message': ({ message }) => [message],
  'commit.branches': ({ branches }) => branches,
  'commit.tags': ({ tags }) => tags,
  'commit.author_name': ({ authorName }) => [authorName],
  'commit.author_email': ({ authorEmail }) => [authorEmail],
  'commit.committer_email': ({ committerEmail }) => [committerEmail],
  'commit.ref': ({ ref }) => [ref],
  'commit.files': ({ files }) => files,
  'request.event': ({ event }) => [event],
  'request.target_branch': ({ targetBranch }) => (targetBranch === '' ? [] : [targetBranch]),
  'request.from_fork': ({ isFromFork }) => [String(isFromFork)],
};

const holds: Record<Operator, (values: readonly string[], value: string) => boolean> = {
  contains: (values, value) => values.some((text) => text.includes(value)),
  does_not_contain: (values, value) => !values.some((text) => text.includes(value)),
  equals: (values, value) => values.includes(value),
  does_not_equal: (values, value) => !values.includes(value),
  starts_with: (values, value) => values.some((text) => text.startsWith(value)),
  ends_with: (values, value) => values.some((text) => text.endsWith(value)),
  matches(values, value) {
    const expression = engine().compile(value); // Compiled once for all values: a commit may have changed thousands of files.
    return values.some((text) => expression.test(text));
  },
};

function compiles(expression: string): boolean {
  if (expressionSize(expression) > largestExpression) return false;
  try {
    engine().compile(expression);
    return true;
  } catch {
    return false;
  }
}
