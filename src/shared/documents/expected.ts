import { ApiError } from '../errors.ts';
import type { Field } from '../records/fields.ts';
import type { JsonSchema } from '../records/schema.ts';
import { areVariables, projectFields, rawOf, sections, suites, type DocumentField, type Kind } from './kinds.ts';
import { quoted } from './mistake-list.ts';

const text: JsonSchema = { type: 'string' };
/** `field` is set if the schema describes a whole field. */
interface Described extends JsonSchema {
  field?: Field<unknown>;
}

/** A document refers to suites by name, the API by identifier. */
function schemaOf({ field, fallback, isApart }: DocumentField): JsonSchema {
  if (field && !isApart) {
    return { ...field.schema, field } as Described;
  }
  const schema: JsonSchema = Array.isArray(fallback) ? { type: 'array', items: text } : text;
  return field?.schema.description === undefined ? schema : { ...schema, description: field.schema.description };
}

function tableOf(fields: readonly DocumentField[], children: readonly Kind[] = []): JsonSchema {
  const lists = children.map((kind): [string, JsonSchema] => [kind.section, { type: 'array', items: entryOf(kind) }]);
  const properties = [...fields.map((one): [string, JsonSchema] => [one.name, schemaOf(one)]), ...lists];
  return { type: 'object', properties: Object.fromEntries(properties) };
}

function entryOf(kind: Kind): JsonSchema {
  const { properties, ...table } = tableOf(kind.fields, kind.children);
  const more: Record<string, JsonSchema> = {
    ...(kind === suites && { dependencies: { type: 'array', items: text } }),
    ...(areVariables(kind) && { keep: { type: 'boolean' } }),
  };
  return { ...table, properties: { ...properties, ...more } };
}

/** The end of a sentence about a value that was refused for its form. */
export function wrongForm(path: readonly (string | number)[], value: unknown): string {
  let schema: JsonSchema | undefined = tableOf(projectFields, sections);
  for (const step of asInSuite(path)) schema = typeof step === 'number' ? schema?.items : propertyOf(schema, step);
  if (!schema) return 'is not known';
  const { type, enum: choices, maximum } = schema;
  const isFitting = [type ?? []].flat().includes(typeOf(value));
  if (choices && typeof value === 'string') return `is ${quoted(value)}, and must be one of ${choices.join(', ')}`;
  if (!isFitting || maximum !== undefined) return `must be ${inWords(schema)}`;
  if (path.at(-1) === 'content') return 'is not allowed, or too long'; // it may be a secret
  return Array.isArray(value) ? wrongList(schema, value) : wrongText(schema, value);
}

function propertyOf(schema: JsonSchema | undefined, name: string): JsonSchema | undefined {
  const { properties, additionalProperties: others } = schema ?? {};
  return properties?.[name] ?? (typeof others === 'object' ? others : undefined);
}

/** Defaults and templates have the fields of suites. */
function asInSuite([section, ...rest]: readonly (string | number)[]): readonly (string | number)[] {
  if (section === 'defaults') return [suites.section, 0, ...rest];
  return section === 'templates' ? [suites.section, 0, ...rest.slice(1)] : [section ?? '', ...rest];
}

function wrongText(schema: JsonSchema, value: unknown): string {
  const { maxLength = Infinity } = schema;
  const length = Array.from(String(value)).length;
  if (length > maxLength) return `has ${length} characters, and at most ${maxLength} are allowed`;
  const isAllowed = (part: string): boolean => isTaken(schema, part);
  const plain = String(value).replaceAll(/\p{Cc}/gu, '');
  if (plain !== value && isAllowed(plain)) return 'contains a character that is not allowed, such as a line break';
  return `is ${quoted(value)}, which is not allowed${expected(schema)}`;
}

function wrongList(schema: JsonSchema, value: readonly unknown[]): string {
  const { items = {}, maxItems = Infinity } = schema;
  if (value.length > maxItems) return `has ${value.length} entries, and at most ${maxItems} are allowed`;
  if (items.type === 'string' && !value.every((item) => typeof item === 'string')) return 'must be a list of texts';
  const wrong = value.find((item) => !isTaken(schema, [item]));
  if (wrong !== undefined) {
    const known = items.enum ? ` (one of ${items.enum.join(', ')})` : expected(schema);
    return `has the entry ${quoted(wrong)}, which is not allowed${known}`;
  }
  return `has entries that exclude each other${expected(schema)}`;
}

/** A part of a field counts as taken. */
function isTaken(schema: Described, value: unknown): boolean {
  try {
    schema.field?.parse(rawOf(value));
    return true;
  } catch (error) {
    if (error instanceof ApiError) return false;
    throw error;
  }
}

function expected({ description, pattern }: JsonSchema): string {
  if (description !== undefined) return `; expected: ${description}`;
  return pattern === undefined ? '' : `; it must match ${pattern}`;
}

function typeOf(value: unknown): string {
  if (Array.isArray(value)) return 'array';
  return Number.isInteger(value) ? 'integer' : typeof value;
}

const namesOfTypes: Readonly<Record<string, string>> = { boolean: 'true or false', object: 'a table' };

function inWords({ type, items, minimum = 0, maximum }: JsonSchema): string {
  const [first = ''] = [type ?? ''].flat();
  if (first === 'array') return items?.properties ? 'a list of tables' : 'a list of texts';
  if (first === 'integer') return `a whole number${maximum === undefined ? '' : ` from ${minimum} to ${maximum}`}`;
  return namesOfTypes[first] ?? 'text';
}
