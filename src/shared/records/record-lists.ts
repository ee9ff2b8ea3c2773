import { ApiError, type FieldErrors } from '../errors.ts';
import { most, type ListBound } from '../domain/bounds.ts';
import { Digits, isBlank, type Field, type FieldSet, type ValuesOf } from './fields.ts';
import type { JsonSchema } from './schema.ts';

type Table = Readonly<Record<string, unknown>>;

/** Mistakes by field. `before` are earlier records. Refused fields are undefined: all mistakes appear at once. */
export type RecordCheck<F extends FieldSet> = (
  record: Partial<ValuesOf<F>>,
  before: readonly Partial<ValuesOf<F>>[],
) => FieldErrors;

/** As JSON. A form numbers the records: `steps[0][name]`. Its empty records do not count. Lists may nest. */
export function recordList<F extends FieldSet>(
  bound: ListBound,
  fields: F,
  description: string,
  check: RecordCheck<F> = () => ({}),
): Field<ValuesOf<F>[], string> {
  const maxItems = most[bound];
  const entries = Object.entries(fields);
  const items: JsonSchema = {
    type: 'object',
    properties: Object.fromEntries(entries.map(([name, { schema }]) => [name, schema])),
    required: entries.filter(([, { required }]) => required).map(([name]) => name),
    additionalProperties: false,
  };
  return {
    required: false,
    fallback: [],
    schema: { type: 'array', items, maxItems, description },
    parse(raw) {
      const errors: FieldErrors = {};
      const sent = numbered(raw, fields);
      const records = sent.map(([at, record]) => readRecord(fields, record, `[${at}]`, errors));
      if (records.length > maxItems) throw new ApiError('invalid_format');
      for (const [at, [number]] of sent.entries()) {
        if (errors[`[${number}]`]) continue;
        const wrong = check(records[at] as ValuesOf<F>, records.slice(0, at));
        for (const [name, codes] of Object.entries(wrong)) errors[`[${number}][${name}]`] ??= codes;
      }
      if (Object.keys(errors).length > 0) throw ApiError.ofFields(errors);
      return records;
    },
    toColumn: (records) => JSON.stringify(records),
    fromColumn: (column) => JSON.parse(column) as ValuesOf<F>[],
  };
}

/** Each with the number that it was sent with. */
export function numbered(raw: unknown, fields: FieldSet): [at: string, record: unknown][] {
  // A form empties a list with a blank entry.
  if (Array.isArray(raw)) return raw.flatMap((one: unknown, at) => (isBlank(one) ? [] : [[String(at), one]]));
  if (!isTable(raw) || !Object.keys(raw).every((name) => /^\d{1,4}$/.test(name))) throw new ApiError('invalid_format');
  return Object.entries(raw)
    .filter(([, record]) => !isTable(record) || isFilled(record, fields))
    .toSorted(([a], [b]) => Number(a) - Number(b));
}

/** Choices always have a value, so only the other fields decide. */
function isFilled(record: Table, fields: FieldSet): boolean {
  return Object.keys(record).some((name) => !(fields[name]?.schema.enum || isEmpty(record[name])));
}

function isEmpty(raw: unknown): boolean {
  return isTable(raw) || Array.isArray(raw) ? Object.values(raw).every(isEmpty) : isBlank(raw);
}

function readRecord<F extends FieldSet>(fields: F, raw: unknown, at: string, errors: FieldErrors): ValuesOf<F> {
  const values: Record<string, unknown> = {};
  if (!isTable(raw)) errors[at] = ['invalid_format'];
  const record = isTable(raw) ? raw : {};
  for (const name of Object.keys(record)) if (!fields[name]) errors[`${at}[${name}]`] = ['invalid_format'];
  for (const [name, field] of Object.entries(fields)) {
    const { [name]: sent } = record;
    const isMissing = sent === undefined || sent === null || (isBlank(sent) && !field.takesBlank);
    try {
      if (isMissing && field.required) throw new ApiError('is_blank');
      values[name] = isMissing ? field.fallback : field.parse(sent);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (!isTable(raw)) continue;
      for (const [inside, codes] of Object.entries(error.fields))
        errors[`${at}[${name}]${inside.startsWith('[') ? inside : ''}`] = codes;
    }
  }
  return values as ValuesOf<F>;
}

function isTable(raw: unknown): raw is Table {
  return typeof raw === 'object' && raw !== null && !Array.isArray(raw) && !(raw instanceof Digits);
}
