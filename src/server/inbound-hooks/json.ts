import type { JsonLimits } from '../../shared/lib/untrusted-json.ts';

/** A payload of a forge, not checked yet. */
export type Json = unknown;

/** The value at a path. Only own properties count, so that no name is special. */
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

/** The first of these that is a text and not blank. */
export function firstText(...values: Json[]): string {
  return values.map(textOf).find((text) => text !== '') ?? '';
}

export function listOf(value: Json): Json[] {
  return Array.isArray(value) ? value : [];
}

/** The longest payloads of forges have a value in every thirty bytes. This leaves room for twice as many. */
export const payloadLimits: JsonLimits = { depth: 64, values: 2_000_000, names: 2_000_000 };
