import { longest, most } from './bounds.ts';
import { variableNameForm } from './variable-names.ts';

/**
 * The matrix of a suite: variables with several values each, written `NAME=a,b,c`. There is one build for every
 * combination of values. Its variant, `NAME=a OTHER=x`, tells it apart from the others and has its variables. So no value
 * contains white space.
 */
export interface Axis {
  name: string;
  values: string[];
}

/** It is part of an index, of names of statuses at forges, and of titles. */
export const longestVariant = 500;

const valueForm = /^[^\s,\p{Cc}]+$/u;

/** The variables of a matrix; undefined where they are no matrix. Blanks around values do not count. */
export function readMatrix(entries: readonly string[]): Axis[] | undefined {
  const axes = entries.map(readAxis);
  const known = axes.filter((axis) => axis !== undefined);
  if (known.length !== axes.length) return undefined;
  if (new Set(known.map(({ name }) => name)).size !== known.length) return undefined;
  if (known.reduce((count, { values }) => count * values.length, 1) > most.variants) return undefined;
  const lengths = known.map(({ name, values }) => name.length + 2 + Math.max(...values.map(({ length }) => length)));
  return lengths.reduce((sum, length) => sum + length, 0) - 1 > longestVariant ? undefined : known;
}

function readAxis(entry: string): Axis | undefined {
  const at = entry.indexOf('=');
  const name = entry.slice(0, Math.max(at, 0)).trim();
  const values = entry
    .slice(at + 1)
    .split(',')
    .map((value) => value.trim());
  if (!variableNameForm.test(name) || name.length > longest.variableName) return undefined;
  const isFit = values.every((value) => valueForm.test(value) && value.isWellFormed());
  return isFit && new Set(values).size === values.length ? { name, values } : undefined;
}

export function textOfAxis({ name, values }: Axis): string {
  return `${name}=${values.join(',')}`;
}

/** All variants of a matrix, the last variable changing first; one blank variant without a matrix. */
export function variantsOf(entries: readonly string[]): string[] {
  let variants: string[] = [''];
  for (const { name, values } of readMatrix(entries) ?? []) {
    variants = variants.flatMap((variant) => values.map((value) => `${variant} ${name}=${value}`.trim()));
  }
  return variants;
}

/** What people call a build: `unit (NODE=20)`. */
export function nameWithVariant(suite: string, variant: string): string {
  return variant === '' ? suite : `${suite} (${variant})`;
}

/** The variables of a build, from its variant. */
export function variablesIn(variant: string): Record<string, string> {
  const pairs = variant === '' ? [] : variant.split(' ');
  return Object.fromEntries(pairs.map((pair) => [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)]));
}
