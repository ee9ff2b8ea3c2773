/** The part of JSON Schema that describes answers, for the serializer and for the OpenAPI document. */
export interface JsonSchema {
  type?: string | string[];
  format?: string;
  description?: string;
  pattern?: string;
  enum?: string[];
  const?: unknown;
  default?: unknown;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  maxItems?: number;
  items?: JsonSchema;
  properties?: Record<string, JsonSchema>;
  required?: string[];
  additionalProperties?: boolean | JsonSchema;
}

export const string: JsonSchema = { type: 'string' };
export const boolean: JsonSchema = { type: 'boolean' };
export const integer: JsonSchema = { type: 'integer' };
export const id: JsonSchema = { type: 'integer', format: 'int64' };
/** In a request: text is allowed, because a JavaScript number cannot hold 64 bits. */
export const sentId: JsonSchema = { type: ['string', 'integer'], format: 'int64', pattern: '^[0-9]{1,19}$' };
/** In a path, where it is text. */
export const idInPath: JsonSchema = { type: 'string', pattern: '^[0-9]{1,19}$' };
export const dateTime: JsonSchema = { type: 'string', format: 'date-time' };

export function nullable(schema: JsonSchema): JsonSchema {
  return { ...schema, type: [...[schema.type ?? 'null'].flat(), 'null'] };
}

/** A record with exactly these fields. */
export function record(properties: Record<string, JsonSchema>): JsonSchema {
  return { type: 'object', properties, required: Object.keys(properties), additionalProperties: false };
}

/** The same record with these optional fields. */
export function withOptional(schema: JsonSchema, properties: Record<string, JsonSchema>): JsonSchema {
  return { ...schema, properties: { ...schema.properties, ...properties } };
}

export function listOf(items: JsonSchema): JsonSchema {
  return { type: 'array', items };
}

/**
 * The same schema for the serializer. It writes a bigint where an integer is declared, but where an integer or null is
 * declared it needs OpenAPI's older `nullable`.
 */
export function forSerializer(schema: JsonSchema): JsonSchema & { nullable?: boolean } {
  const { type, items, properties } = schema;
  const [other, ...more] = Array.isArray(type) ? type.filter((one) => one !== 'null') : [];
  const isNullable = Array.isArray(type) && type.includes('null') && other !== undefined && more.length === 0;
  return {
    ...schema,
    ...(isNullable ? { type: other, nullable: true } : {}),
    ...(items ? { items: forSerializer(items) } : {}),
    ...(properties ? { properties: mapValues(properties, forSerializer) } : {}),
  };
}

function mapValues<T, U>(record: Record<string, T>, change: (value: T) => U): Record<string, U> {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, change(value)]));
}
