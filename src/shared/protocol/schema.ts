import * as Type from 'typebox';
import type { Static, TArray, TObject, TProperties, TSchema, TString, TUnsafe } from 'typebox';
import { longest } from '../domain/bounds.ts';

/** A message is defined once, with TypeBox. Its type and the check follow (dispatch/read-message.ts). */

export function matching(form: RegExp): TString {
  return Type.String({ pattern: form.source });
}

/** Both databases can store it. */
export function text(maxLength: number): TString {
  return Type.String({ maxLength });
}

export function textOfBytes(maxBytes: number): TUnsafe<string> {
  return Type.Unsafe<string>({ type: 'string', maxLength: maxBytes, maxBytes });
}

/** Only a part of the text is taken. The whole message has its own limit. */
export function cutText(taking: (text: string) => string): TUnsafe<string> {
  // A cut may leave half of a character.
  return Type.Unsafe<string>({ type: 'string', taking: (whole: string) => taking(whole).toWellFormed() });
}

export function whole(maximum: number): TUnsafe<number> {
  return Type.Unsafe<number>({ type: 'integer', maximum });
}

export function bytesOf(minBytes: number, maxBytes: number): TUnsafe<Uint8Array> {
  return Type.Unsafe<Uint8Array>({ minBytes, maxBytes });
}

export function listOf<Of extends TSchema>(maxItems: number, items: Of): TArray<Of> {
  return Type.Array(items, { maxItems });
}

/** Only a part of the list is taken. */
export function cutList<Of extends TSchema>(
  maxItems: number,
  items: Of,
  taking: (list: Static<Of>[]) => Static<Of>[],
): TUnsafe<Static<Of>[]> {
  return Type.Unsafe<Static<Of>[]>({ type: 'array', items, maxItems, taking });
}

export function oneOf<const Word extends string>(words: readonly Word[]): TUnsafe<Word> {
  return Type.Unsafe<Word>({ enum: words });
}

export function orNull<Of extends TSchema>(schema: Of): TUnsafe<Static<Of> | null> {
  return Type.Unsafe<Static<Of> | null>({ orNull: schema });
}

/** One of several objects, by their `kind`, or by their first field if they have none. */
export const eitherOf = Type.Union;
export const optional = Type.Optional;
export const literal = Type.Literal;
export const flag = Type.Boolean();

export function object<Fields extends TProperties>(fields: Fields): TObject<Fields> {
  return Type.Object(fields);
}

/** Chosen by the runner, and long enough that no other can guess it. */
export const claim = matching(/^[\w-]{16,64}$/);
/** 64 bits in decimal, because JSON has none. */
export const id = Type.String({ format: 'int64' });
/** SHA-256, or another 256 bits. */
export const digest = matching(/^[0-9a-f]{64}$/);
export const size = whole(Number.MAX_SAFE_INTEGER);
export const reason = matching(/^[a-z][a-z0-9_]{0,63}$/);
export const message = cutText((text) => text.slice(0, longest.runnerWords));
export const gitName = text(longest.gitName);
