import { createRequire } from 'node:module';
import type { RE2JS } from 're2js';
import { expressionSize } from '../lib/expression-size.ts';
import type { operators } from './rule-operators.ts';

/** Loaded on first use: most servers never need it, and it takes several megabytes. */
export function engine(): typeof RE2JS {
  return (createRequire(import.meta.url)('re2js') as { RE2JS: typeof RE2JS }).RE2JS;
}

/** Regular expressions can be invalid, and slow. */
export function isExpression(operator: (typeof operators)[number]): boolean {
  return ['matches', 'does_not_match', 'all_match', 'not_all_match'].includes(operator);
}

/** In atoms with repetitions written out. At worst, some tens of microseconds per character. */
export const largestExpression = 300;

/** The length of the value is checked elsewhere. */
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
