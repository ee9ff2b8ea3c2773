import * as Type from 'typebox';
import type { Static, TObject, TProperties, TSchema, TUnsafe } from 'typebox';

/**
 * The parts of records. A record is defined once, with TypeBox: its TypeScript type, its serializer, the OpenAPI
 * document, and the types for pages and the command line all follow from that.
 */

export const string = Type.String();
export const boolean = Type.Boolean();
export const integer = Type.Integer();
export const dateTime = Type.String({ format: 'date-time' });
/** 64 bits, which a JavaScript number cannot hold. */
export const id: TUnsafe<bigint> = Type.Unsafe<bigint>({ type: 'integer', format: 'int64' });

/** An identifier, and the same as text for clients that cannot hold 64 bits. */
export const ownId = { id, id_str: string };

export function idWithString<Name extends string>(
  name: Name,
): Record<Name, typeof id> & Record<`${Name}_str`, typeof string> {
  return { [name]: id, [`${name}_str`]: string } as never;
}

/** The identifier of something that may be missing: then it is null and a blank text. */
export function nullableIdWithString<Name extends string>(
  name: Name,
): Record<Name, TUnsafe<bigint | null>> & Record<`${Name}_str`, typeof string> {
  return { [name]: nullable(id), [`${name}_str`]: string } as never;
}

export function nullable<Of extends TSchema>(schema: Of): TUnsafe<Static<Of> | null> {
  const { type } = schema as { type?: string };
  return Type.Unsafe<Static<Of> | null>({ ...schema, type: [type, 'null'] });
}

/** One of these words. */
export function wordOf<const Word extends string>(words: readonly Word[]): TUnsafe<Word> {
  return Type.Unsafe<Word>({ type: 'string', enum: [...words] });
}

/** One of these words, in a column of any text, so its type is text. The states of machines are such words. */
export function stateOf(words: readonly string[]): TUnsafe<string> {
  return Type.Unsafe<string>({ type: 'string', enum: [...words] });
}

export const optional = Type.Optional;
export const listOf = Type.Array;

/** An object with exactly these fields. */
export function object<Fields extends TProperties>(fields: Fields): TObject<Fields> {
  return Type.Object(fields, { additionalProperties: false });
}

/** The same, under a name of its own in the OpenAPI document. */
export function record<Fields extends TProperties>(name: string, fields: Fields): TObject<Fields> {
  return Type.Object(fields, { title: name, additionalProperties: false });
}

/** An object with any names, whose values all have this schema. */
export function mapOf<Of extends TSchema>(values: Of): TUnsafe<Record<string, Static<Of>>> {
  return Type.Unsafe<Record<string, Static<Of>>>({ type: 'object', additionalProperties: values });
}

export const strings = listOf(string);
export const destroyedAnswer = record('Destroyed', { destroyed: boolean });

/** The part of JSON Schema that describes fields and answers, for the serializer and for the OpenAPI document. */
export interface JsonSchema {
  type?: string | string[];
  format?: string;
  description?: string;
  pattern?: string;
  enum?: string[];
  title?: string;
  default?: unknown;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  maxItems?: number;
  uniqueItems?: boolean;
  anyOf?: JsonSchema[];
  items?: JsonSchema;
  properties?: Record<string, JsonSchema>;
  /** By a regular expression for their names. */
  patternProperties?: Record<string, JsonSchema>;
  required?: string[];
  additionalProperties?: boolean | JsonSchema;
}

/** In a request: text is allowed, because a JavaScript number cannot hold 64 bits. */
export const sentId: JsonSchema = {
  type: ['string', 'integer'],
  format: 'int64',
  pattern: '^[0-9]{1,19}$',
  minimum: 0,
};
/** In a path, where it is text. */
export const idInPath: JsonSchema = { type: 'string', pattern: '^[0-9]{1,19}$' };
