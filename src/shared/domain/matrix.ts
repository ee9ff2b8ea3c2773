import { longest, most } from './bounds.ts';
import { variableNameForm } from './variable-names.ts';

/**
 * Variables with several values each, written `NAME=a,b,c`. Every combination is a build. Exclusions remove some
 * combinations, and inclusions add further ones. The variant, `NAME=a OTHER=x`, identifies the build and contains its
 * variables, so values contain no white space.
 */
export interface Axis {
  name: string;
  values: string[];
}

/** A line of the last two fields names one variant, or values that several variants share. */
export interface Matrix {
  matrix: readonly string[];
  matrix_include: readonly string[];
  matrix_exclude: readonly string[];
}

const valueForm = /^[^\s,\p{Cc}]+$/u;

/** Undefined if invalid. Blanks around values do not count. */
export function readMatrix(entries: readonly string[]): Axis[] | undefined {
  const axes = entries.map(readAxis);
  const known = axes.filter((axis) => axis !== undefined);
  if (known.length !== axes.length) return undefined;
  if (new Set(known.map(({ name }) => name)).size !== known.length) return undefined;
  if (combinationsOf(known) > most.combinations) return undefined;
  const lengths = known.map(({ name, values }) => name.length + 2 + Math.max(...values.map(({ length }) => length)));
  return lengths.reduce((sum, length) => sum + length, 0) - 1 > longest.variant ? undefined : known;
}

function combinationsOf(axes: readonly Axis[]): number {
  return axes.reduce((count, { values }) => count * values.length, 1);
}

/** A variant, or a part of one. Undefined for any other line. */
export function readVariant(line: string): Axis[] | undefined {
  const pairs = line.split(/ +/);
  const axes = readMatrix(pairs);
  return axes?.every(({ values }) => values.length === 1) ? axes : undefined;
}

export function textOfVariant(axes: readonly Axis[]): string {
  return axes.map(textOfAxis).join(' ');
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

/** The last variable changes first. Without a matrix there is one blank variant. */
export function variantsOf({ matrix, matrix_include: included, matrix_exclude: excluded }: Matrix): string[] {
  let variants: string[] = [''];
  for (const { name, values } of readMatrix(matrix) ?? []) {
    variants = variants.flatMap((variant) => values.map((value) => `${variant} ${name}=${value}`.trim()));
  }
  const isExcluded = amongVariants(excluded);
  const combined = matrix.length === 0 && included.length > 0 ? [] : variants.filter((one) => !isExcluded(one));
  // The same names and values in another order are the same combination.
  const seen = new Map<string, string>();
  for (const variant of [...combined, ...included]) {
    const key = variant.split(' ').toSorted().join(' ');
    if (!seen.has(key)) seen.set(key, variant);
  }
  return [...seen.values()];
}

/** An upper limit, without making them: excluded variants count. */
export function mostVariantsOf({ matrix, matrix_include: included }: Omit<Matrix, 'matrix_exclude'>): number {
  return (matrix.length === 0 ? 0 : combinationsOf(readMatrix(matrix) ?? [])) + included.length;
}

/** A line names a variant if the variant has all of the line's values. */
export function amongVariants(lines: readonly string[]): (variant: string) => boolean {
  const named = lines.map((line) => line.split(' '));
  return (variant) => {
    const pairs = new Set(variant.split(' '));
    return named.some((line) => line.every((pair) => pairs.has(pair)));
  };
}

/** Such as `unit (NODE=20)`. */
export function nameWithVariant(suite: string, variant: string): string {
  return variant === '' ? suite : `${suite} (${variant})`;
}

export function variablesIn(variant: string): Record<string, string> {
  const pairs = variant === '' ? [] : variant.split(' ');
  return Object.fromEntries(pairs.map((pair) => [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)]));
}

const nameInText = /\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))/g;

/** Puts the variant's values in place of `$NAME` and `${NAME}`. Other names stay, and values are not read again. */
export function inVariant(text: string, variant: string): string {
  if (variant === '' || !text.includes('$')) return text;
  const values = new Map(Object.entries(variablesIn(variant)));
  return text.replaceAll(nameInText, (whole, braced?: string, plain?: string) => {
    return values.get(braced ?? plain ?? '') ?? whole;
  });
}
