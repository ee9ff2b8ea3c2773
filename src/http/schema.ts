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
