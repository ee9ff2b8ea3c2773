import type { TSchema } from 'typebox';
import type { JsonSchema } from '../../shared/records/schema.ts';

type Write = (value: unknown) => string;

/** Writes only fields that the schema names, so no other field ever reaches a client. A bigint keeps all its digits. */
export function serializer(described: TSchema): Write {
  const schema: JsonSchema = described;
  const types = [schema.type ?? []].flat();
  const [type, ...more] = types.filter((one) => one !== 'null');
  const make = more.length === 0 ? writers[type ?? ''] : undefined;
  if (!make) throw new Error(`answers of type ${types.join(' or ')} cannot be written`);
  const write = make(schema);
  return types.includes('null') ? (value) => (value === null ? 'null' : write(value)) : write;
}

const writers: Record<string, (schema: JsonSchema) => Write> = {
  string: () => (value) => {
    if (typeof value !== 'string') throw new Error(`an answer has a ${typeof value} in the place of text`);
    return JSON.stringify(value);
  },
  boolean: () => (value) => (value ? 'true' : 'false'),
  integer: () => (value) => {
    if (typeof value === 'bigint') return String(value);
    if (typeof value === 'number' && Number.isFinite(value)) return String(Math.trunc(value));
    throw new Error(`an answer has a ${typeof value} in the place of an integer`);
  },
  number: () => (value) => {
    if (typeof value === 'number' && Number.isFinite(value)) return String(value);
    throw new Error(`an answer has a ${typeof value} in the place of a number`);
  },
  array: ({ items }) => {
    if (!items) throw new Error('a list in an answer says what is in it');
    const write = serializer(items);
    return (value) => `[${(value as unknown[]).map(write).join(',')}]`;
  },
  object: (schema) => {
    if (schema.properties) return recordWriter(schema, schema.properties);
    const { additionalProperties: others } = schema;
    if (others === true) return (value) => JSON.stringify(value);
    if (typeof others !== 'object') throw new Error('an object in an answer says what is in it');
    const write = serializer(others);
    return (value) => {
      const fields = Object.entries(value as object).filter(([, field]) => field !== undefined);
      return `{${fields.map(([name, field]) => `${JSON.stringify(name)}:${write(field)}`).join(',')}}`;
    };
  },
};

function recordWriter({ required = [] }: JsonSchema, properties: Record<string, JsonSchema>): Write {
  const fields = Object.entries(properties).map(([name, schema]) => ({ name, write: serializer(schema) }));
  return (value) => {
    const given = value as Record<string, unknown>;
    const missing = required.find((name) => given[name] === undefined);
    if (missing !== undefined) throw new Error(`an answer lacks its field ${missing}`);
    const there = fields.filter(({ name }) => given[name] !== undefined);
    return `{${there.map(({ name, write }) => `${JSON.stringify(name)}:${write(given[name])}`).join(',')}}`;
  };
}
