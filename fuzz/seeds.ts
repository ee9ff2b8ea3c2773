import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Where a property once failed: from the seed, fast-check makes the same inputs again. */
export interface Seed {
  seed: number;
  path: string;
  /** What went wrong, in a line. */
  found: string;
}

const fileOf = (target: string): string => join(import.meta.dirname, 'seeds', `${target}.json`);

export function seedsOf(target: string): Seed[] {
  const file = fileOf(target);
  return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as Seed[]) : [];
}

/** Keeps a seed, to be tried again by every `npm test`. */
export function keepSeed(target: string, seed: Seed): void {
  const kept = seedsOf(target).filter((other) => other.seed !== seed.seed);
  writeFileSync(fileOf(target), `${JSON.stringify([...kept, seed], null, 2)}\n`);
}
