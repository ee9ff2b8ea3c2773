import * as Type from 'typebox';
import type { Static, TObject, TProperties, TSchema, TUnsafe } from 'typebox';

/** A record is defined once, with TypeBox. Types, serializer and the OpenAPI document follow. */

export const string = Type.String();
export const boolean = Type.Boolean();
export const integer = Type.Integer();
export const number = Type.Number();
export const dateTime = Type.String({ format: 'date-time' });
/** A JavaScript number cannot hold 64 bits. */
export const id: TUnsafe<bigint> = Type.Unsafe<bigint>({ type: 'integer', format: 'int64' });

/** The text is for clients that cannot hold 64 bits. */
export const ownId = { id, id_str: string };

export function idWithString<Name extends string>(
  name: Name,
): Record<Name, typeof id> & Record<`${Name}_str`, typeof string> {
  return { [name]: id, [`${name}_str`]: string } as never;
}

/** If there is none, null and a blank text. */
export function nullableIdWithString<Name extends string>(
  name: Name,
): Record<Name, TUnsafe<bigint | null>> & Record<`${Name}_str`, typeof string> {
  return { [name]: nullable(id), [`${name}_str`]: string } as never;
}

export function nullable<Of extends TSchema>(
  schema: Of,
  about: { description?: string } = {},
): TUnsafe<Static<Of> | null> {
  const { type } = schema as { type?: string };
  return Type.Unsafe<Static<Of> | null>({ ...schema, ...about, type: [type, 'null'] });
}

export function wordOf<const Word extends string>(words: readonly Word[]): TUnsafe<Word> {
  return Type.Unsafe<Word>({ type: 'string', enum: [...words] });
}

/** Any text of a column, so its type is text. */
export function stateOf(words: readonly string[]): TUnsafe<string> {
  return Type.Unsafe<string>({ type: 'string', enum: [...words] });
}

export const optional = Type.Optional;
export const listOf = Type.Array;

export function object<Fields extends TProperties>(fields: Fields): TObject<Fields> {
  return Type.Object(fields, { additionalProperties: false });
}

/** `name` is its name in the OpenAPI document. */
export function record<Fields extends TProperties>(name: string, fields: Fields): TObject<Fields> {
  return Type.Object(fields, { title: name, additionalProperties: false });
}

export function mapOf<Of extends TSchema>(values: Of): TUnsafe<Record<string, Static<Of>>> {
  return Type.Unsafe<Record<string, Static<Of>>>({ type: 'object', additionalProperties: values });
}

export const strings = listOf(string);
export const destroyedAnswer = record('Destroyed', { destroyed: boolean });

/** The part of JSON Schema that fields and answers use. */
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

/** Text is allowed, because a JavaScript number cannot hold 64 bits. */
export const sentId: JsonSchema = {
  type: ['string', 'integer'],
  format: 'int64',
  pattern: '^[0-9]{1,19}$',
  minimum: 0,
};
export const idInPath: JsonSchema = { type: 'string', pattern: '^[0-9]{1,19}$' };
