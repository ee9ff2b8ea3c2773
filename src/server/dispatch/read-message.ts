import type { Static, TSchema } from 'typebox';
import { ApiError } from '../../shared/errors.ts';
import { isId } from '../../shared/lib/ids.ts';
import { callNames, calls, oneOf, size, type CallName, type Message } from '../../shared/protocol/index.ts';

/**
 * Strict, because an attacker may control a runner. A value of the wrong type, length or form is refused by name.
 * Unknown fields are dropped.
 */
type Read = (value: unknown, name: string) => unknown;

interface Schema extends TSchema {
  type?: string;
  const?: unknown;
  enum?: readonly unknown[];
  pattern?: string;
  format?: string;
  maximum?: number;
  maxLength?: number;
  maxItems?: number;
  minBytes?: number;
  maxBytes?: number;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  orNull?: Schema;
  anyOf?: Schema[];
  taking?: (value: unknown) => unknown;
}

function refuse(name: string): never {
  throw new ApiError('invalid_format', name || undefined);
}

const isFields = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function readerOf(schema: Schema): Read {
  const { taking } = schema;
  const read = untakenReaderOf(schema);
  return taking ? (value, name) => taking(read(value, name)) : read;
}

function untakenReaderOf({ type, orNull, anyOf, const: only, enum: values, ...schema }: Schema): Read {
  if (orNull) return orNullReader(readerOf(orNull));
  if (anyOf) return eitherReader(anyOf);
  if (only !== undefined) return when((value) => value === only);
  if (values) return when((value) => values.includes(value));
  if (type === 'boolean') return when((value) => typeof value === 'boolean');
  if (type === 'string') return stringReader(schema);
  if (type === 'integer') {
    const { maximum = 0 } = schema;
    return when((value) => Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) <= maximum);
  }
  if (type === 'array') return listReader(schema);
  if (type === 'object') return objectReader(schema);
  const { minBytes = 0, maxBytes = 0 } = schema;
  return when((value) => Buffer.isBuffer(value) && value.length >= minBytes && value.length <= maxBytes);
}

function when(isGood: (value: unknown) => boolean): Read {
  return (value, name) => (isGood(value) ? value : refuse(name));
}

/** Text that either database can store. */
function stringReader({ pattern, format, maxLength = Infinity, maxBytes = Infinity, taking }: Schema): Read {
  if (format === 'int64') return when((value) => typeof value === 'string' && isId(value));
  if (pattern !== undefined) {
    const form = new RegExp(pattern);
    return when((value) => typeof value === 'string' && form.test(value));
  }
  return (value, name) => {
    if (typeof value !== 'string' || value.length > maxLength || value.includes('\0')) return refuse(name);
    const isFit = taking !== undefined || (value.isWellFormed() && Buffer.byteLength(value) <= maxBytes);
    return isFit ? value : refuse(name);
  };
}

const orNullReader =
  (read: Read): Read =>
  (value, name) =>
    value === null ? null : read(value, name);

function listReader({ items = {}, maxItems = 0 }: Schema): Read {
  const read = readerOf(items);
  return (value, name) =>
    Array.isArray(value) && value.length <= maxItems ? value.map((one) => read(one, name)) : refuse(name);
}

function objectReader({ properties = {}, required = [] }: Schema): Read {
  const fields = Object.entries(properties).map(
    ([field, schema]) => [field, readerOf(schema), required.includes(field)] as const,
  );
  return (value, name) => {
    if (!isFields(value)) return refuse(name);
    const taken: Record<string, unknown> = {};
    for (const [field, read, isRequired] of fields) {
      const { [field]: sent } = value;
      if (sent !== undefined || isRequired) taken[field] = read(sent, name === '' ? field : `${name}[${field}]`);
    }
    return taken;
  };
}

function eitherReader(schemas: Schema[]): Read {
  const readers = schemas.map((schema) => [keyOf(schema), readerOf(schema)] as const);
  const byKind = new Map(schemas.map(({ properties }, at) => [properties?.kind?.const, readers[at]?.[1]]));
  return (value, name) => {
    if (!isFields(value)) return refuse(name);
    if (!byKind.has(undefined)) return (byKind.get(value.kind) ?? refuse(`${name}[kind]`))(value, name);
    const [, read] = readers.find(([key]) => value[key] !== undefined) ?? readers.at(-1) ?? refuse(name);
    return read(value, name);
  };
}

const keyOf = ({ properties = {} }: Schema): string => Object.keys(properties)[0] ?? '';

/** For values outside of a call's message. */
export const reader = readerOf as <Of extends TSchema>(schema: Of) => (value: unknown, name: string) => Static<Of>;

const readers = new Map(callNames.map((name) => [name, readerOf(calls[name].message as Schema)]));

export function readCall<Name extends CallName>(name: Name, message: unknown): Message<Name> {
  return readers.get(name)?.(message, '') as Message<Name>;
}

export const readName = reader(oneOf(callNames));
export const readId = reader(size);
