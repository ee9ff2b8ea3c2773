import { createRequire } from 'node:module';
import type { RE2JS } from 're2js';
import { expressionSize } from '../lib/expression-size.ts';
import type { operators } from './rule-operators.ts';

/** Loaded when the first expression is met: most servers never meet one, and it takes several megabytes. */
export function engine(): typeof RE2JS {
  return (createRequire(import.meta.url)('re2js') as { RE2JS: typeof RE2JS }).RE2JS;
}

/** Whether the operator takes a regular expression, which can be wrong, and slow. */
export function isExpression(operator: (typeof operators)[number]): boolean {
  return ['matches', 'does_not_match', 'all_match', 'not_all_match'].includes(operator);
}

/**
 * The size limit of an expression, in atoms after repetitions are written out. People's expressions have some dozens.
 * The worst expression of this size takes some tens of microseconds per character of the text.
 */
export const largestExpression = 300;

/** Whether a rule may have this value: not every text is a regular expression. Its length is bounded where it is read. */
export function fitsOperator(operator: (typeof operators)[number], value: string): boolean {
  return !isExpression(operator) || compiles(value);
}

export function compiles(expression: string): boolean {
  if (expressionSize(expression) > largestExpression) return false;
  try {
    engine().compile(expression);
    return true;
  } catch {
    return false;
  }
}
