import { exactJson } from '../../shared/lib/exact-json.ts';
import { measuredNames, UnreadableJsonError } from '../../shared/lib/untrusted-json.ts';

/** More than any list of records has, and less than the memory of a developer's machine. */
const limits = { depth: 64, values: 2_000_000, names: 5_000_000 };

/** JSON with identifiers of 64 bits: a number that JavaScript cannot hold exactly becomes a bigint. */
export function parseJson(text: string): unknown {
  if (measuredNames(text, limits) === undefined) throw new UnreadableJsonError('the JSON is too large');
  return JSON.parse(text, exact as (key: string, value: unknown) => unknown);
}

function exact(_: string, value: unknown, { source = '' }: { source?: string }): unknown {
  const isExact = typeof value !== 'number' || Number.isSafeInteger(value) || !/^-?\d+$/.test(source);
  return isExact ? value : BigInt(source);
}

/**
 * JSON for people and programs. Characters that could act on a terminal or change the direction of text are written as
 * escapes, which mean the same to a program.
 */
export function writeJson(value: unknown): string {
  return exactJson(value, 2).replaceAll(
    /[\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
