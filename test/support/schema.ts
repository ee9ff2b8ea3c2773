/** The part of JSON Schema that the service uses for its answers. */
export interface Schema {
  $ref?: string;
  type?: string | string[];
  format?: string;
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: unknown;
}

/** The paths at which a value breaks the schema. It also checks 64-bit integers, which no ready-made validator does. */
export function conforms(described: Schema, value: unknown, schemas: Record<string, Schema> = {}, at = '$'): string[] {
  const schema = schemas[described.$ref?.split('/').at(-1) ?? ''] ?? described;
  const types = [schema.type ?? []].flat();
  if (types.length > 0 && !types.includes(typeOf(value))) return [`${at} is ${typeOf(value)}, not ${types.join()}`];
  if (schema.format === 'date-time' && typeof value === 'string' && !isDateTime(value))
    return [`${at} is no date-time`];
  if (Array.isArray(value)) {
    return value.flatMap((item, index) => conforms(schema.items ?? {}, item, schemas, `${at}[${index}]`));
  }
  if (typeof value !== 'object' || value === null) return [];
  const missing = (schema.required ?? []).filter((name) => !(name in value)).map((name) => `${at}.${name} is missing`);
  const inner = Object.entries(value).flatMap(([name, item]) => {
    const known = schema.properties?.[name];
    if (known) return conforms(known, item, schemas, `${at}.${name}`);
    return schema.additionalProperties === false ? [`${at}.${name} is unknown`] : [];
  });
  return [...missing, ...inner];
}

function typeOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'array';
  if (typeof value === 'bigint' || Number.isInteger(value)) return 'integer';
  return typeof value;
}

function isDateTime(text: string): boolean {
  return /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d$/.test(text) && !Number.isNaN(Date.parse(text));
}
