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
