import type { JsonLimits } from '../../shared/lib/untrusted-json.ts';

export type Json = unknown;

/** Only own properties count, so that no name is special. */
export function at(value: Json, ...path: string[]): Json {
  let found = value;
  for (const name of path) {
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, name)) return undefined;
    found = (found as Record<string, Json>)[name];
  }
  return found;
}

export function textOf(value: Json): string {
  return typeof value === 'string' ? value : '';
}

export function firstText(...values: Json[]): string {
  return values.map(textOf).find((text) => text !== '') ?? '';
}

export function listOf(value: Json): Json[] {
  return Array.isArray(value) ? value : [];
}

/** The longest payloads have a value per thirty bytes. This allows twice as many. */
export const payloadLimits: JsonLimits = { depth: 64, values: 2_000_000, names: 2_000_000 };
