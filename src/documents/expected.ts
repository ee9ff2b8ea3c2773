import type { JsonSchema } from '../records/schema.ts';
import { areVariables, projectFields, sections, suites, type DocumentField, type Kind } from './kinds.ts';

const text: JsonSchema = { type: 'string' };

/** In a document, suites are named where the API has their identifiers. */
function schemaOf({ field, fallback, isApart }: DocumentField): JsonSchema {
  if (field && !isApart) return field.schema;
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

/** What is wrong with a value that was refused for its form, as the end of a sentence about it. */
export function wrongForm(path: readonly (string | number)[], value: unknown): string {
  let schema: JsonSchema | undefined = tableOf(projectFields, sections);
  for (const step of path) schema = typeof step === 'number' ? schema?.items : schema?.properties?.[step];
  if (!schema) return 'is not known';
  const isFitting = [schema.type ?? []].flat().includes(typeOf(value));
  if (schema.enum && typeof value === 'string') return `has to be one of ${schema.enum.join(', ')}`;
  if (!isFitting || schema.maximum !== undefined) return `has to be ${inWords(schema)}`;
  return `is too large, or not of the right form${schema.description === undefined ? '' : ` (${schema.description})`}`;
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
