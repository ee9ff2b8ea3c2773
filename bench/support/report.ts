import type { Databases } from './databases.ts';

/** One figure and its limit. */
export interface Figure {
  what: string;
  value: number;
  limit: { atLeast: number } | { atMost: number };
  /** Where the figure comes from, for the reader. */
  from: string;
}

export interface Benchmark {
  name: string;
  run(databases: Databases): Promise<Figure[]>;
}

export function holds({ value, limit }: Figure): boolean {
  return 'atLeast' in limit ? value >= limit.atLeast : value <= limit.atMost;
}

export function line(figure: Figure): string {
  const { what, value, limit, from } = figure;
  const bound = 'atLeast' in limit ? `at least ${limit.atLeast}` : `at most ${limit.atMost}`;
  return `${holds(figure) ? 'ok  ' : 'MISS'}  ${what}: ${round(value)} (${bound}) — ${from}`;
}

export function round(value: number): string {
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3);
}

export function median(values: number[]): number {
  return quantile(values, 0.5);
}

/** The value that only the largest twentieth exceeds. */
export function p95(values: number[]): number {
  return quantile(values, 0.95);
}

function quantile(values: number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length * share)] ?? Number.NaN;
}
