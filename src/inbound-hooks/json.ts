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

const deepest = 64;
/** The longest payloads of forges have a value in every thirty bytes. This leaves room for twice as many. */
const mostValues = 2_000_000;

/**
 * Whether a text can be parsed without harm. A few bytes here may take a hundred as a value, and a sender that knows
 * the secret of one hook must not take down the server for all.
 */
export function isModest(bytes: Uint8Array): boolean {
  let depth = 0;
  let values = 0;
  let inString = false;
  for (let index = 0; index < bytes.length; index += 1) {
    const byte = bytes[index];
    if (inString) {
      if (byte === 0x5c) index += 1;
      else if (byte === 0x22) inString = false;
    } else if (byte === 0x22) {
      inString = true;
    } else if (byte === 0x7b || byte === 0x5b) {
      depth += 1;
      values += 1;
      if (depth > deepest) return false;
    } else if (byte === 0x7d || byte === 0x5d) {
      depth -= 1;
    } else if (byte === 0x2c) {
      values += 1;
    }
    if (values > mostValues) return false;
  }
  return true;
}
