import { exactJson } from '../../shared/lib/exact-json.ts';
import { measuredNames, UnreadableJsonError } from '../../shared/lib/untrusted-json.ts';

/** Above any list of records, and below the memory of a developer's machine. */
const limits = { depth: 64, values: 2_000_000, names: 5_000_000 };

/** A number that JavaScript cannot hold exactly becomes a bigint. */
export function parseJson(text: string): unknown {
  if (measuredNames(text, limits) === undefined) throw new UnreadableJsonError('the JSON is too large');
  return JSON.parse(text, exact as (key: string, value: unknown) => unknown);
}

function exact(_: string, value: unknown, { source = '' }: { source?: string }): unknown {
  const isExact = typeof value !== 'number' || Number.isSafeInteger(value) || !/^-?\d+$/.test(source);
  return isExact ? value : BigInt(source);
}

/** Characters that could act on a terminal or change text direction become escapes, equal for programs. */
export function writeJson(value: unknown): string {
  return exactJson(value, 2).replaceAll(
    /[\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
