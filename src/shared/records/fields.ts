import * as Type from 'typebox';
import type { TUnsafe } from 'typebox';
import { ApiError, type FieldErrors } from '../errors.ts';
import { bytes, longest, most, type ListBound, type TextBound } from '../domain/bounds.ts';
import { parseId } from '../lib/ids.ts';
import { sentId, type JsonSchema } from './schema.ts';

/**
 * How a field is read, described in OpenAPI, stored and answered. Each record declares its fields once (decision 0115).
 */
export interface Field<T, Column = T> {
  readonly required: boolean;
  /** For an optional field that was not sent, or sent blank. */
  readonly fallback: T;
  readonly schema: JsonSchema;
  /** A value of only white space is valid. */
  readonly takesBlank?: boolean;
  /** Reads a raw value (records/raw.ts). Throws an ApiError, whose code is reported under the field's name. */
  parse(raw: unknown): T;
  toColumn(value: T): Column;
  fromColumn(column: Column): T;
}

/** Brackets nest (`options[url]`). */
export type FieldSet = Record<string, Field<unknown>>;

export type NoFields = Record<string, never>;

type ValueOf<F> = F extends Field<infer T, infer _Column> ? T : never;
type ColumnOf<F> = F extends Field<infer _T, infer Column> ? Column : never;
/** The column of `options[url]` is `url`. */
type ColumnName<Name> = Name extends `${string}[${infer Column}]` ? Column : Name;

export type ValuesOf<F extends FieldSet> = { [Name in keyof F]: ValueOf<F[Name]> };
export type ColumnsOf<F extends FieldSet> = { [Name in keyof F as ColumnName<Name>]: ColumnOf<F[Name]> };

/** The last part is the column. */
export function pathOf(name: string): string[] {
  return name.split(/[[\]]+/).filter((part) => part !== '');
}

export function columnName(name: string): string {
  return pathOf(name).at(-1) ?? name;
}

/** Only the sent fields. Writing the other fields could undo another caller's change. */
export function columnsOf<F extends FieldSet, Sent extends Partial<ValuesOf<F>>>(
  fields: F,
  sent: Sent,
): { [Name in keyof Sent as Name extends keyof F ? ColumnName<Name> : never]: ColumnOf<F[Name & keyof F]> } {
  const columns = Object.entries(fields)
    .filter(([name]) => sent[name] !== undefined)
    .map(([name, field]) => [columnName(name), field.toColumn(sent[name])]);
  return Object.fromEntries(columns) as never;
}

/** Columns must have the fields' names. */
export function valuesIn<F extends FieldSet>(fields: F, row: Readonly<ColumnsOf<F>>): ValuesOf<F> {
  const columns: Readonly<Record<string, unknown>> = row;
  const values = Object.entries(fields).map(([name, field]) => [name, field.fromColumn(columns[name])]);
  return Object.fromEntries(values) as ValuesOf<F>;
}

/** Limits apply only to requests: a stored row is never wrong. */
export function answersOf<F extends FieldSet>(fields: F): { [Name in keyof F]: TUnsafe<ValueOf<F[Name]>> } {
  const answers = Object.entries(fields).map(([name, { schema }]) => [name, Type.Unsafe(answered(schema))]);
  return Object.fromEntries(answers) as never;
}

function answered({ type, enum: choices, items, properties }: JsonSchema): JsonSchema {
  return {
    ...(type && { type }),
    ...(choices && { enum: choices }),
    ...(items && { items: answered(items) }),
    ...(properties && {
      properties: Object.fromEntries(Object.entries(properties).map(([name, one]) => [name, answered(one)])),
      required: Object.keys(properties),
      additionalProperties: false,
    }),
  };
}

/** Such as `options[url]`. */
export function grouped<Group extends string, F extends FieldSet>(
  group: Group,
  fields: F,
): { [Name in keyof F & string as `${Group}[${Name}]`]: F[Name] } {
  return Object.fromEntries(Object.entries(fields).map(([name, field]) => [`${group}[${name}]`, field])) as never;
}

/** A JSON number as text, so that no digit is lost. */
export class Digits {
  readonly digits: string;

  constructor(digits: string) {
    this.digits = digits;
  }
}

/** JSON may have a number, a form has only text. */
export function digitsIn(raw: unknown): string {
  if (raw instanceof Digits) return raw.digits;
  return typeof raw === 'string' ? raw : '';
}

export function isBlank(raw: unknown): boolean {
  return typeof raw === 'string' && raw.trim() === '';
}

function invalid(): ApiError {
  return new ApiError('invalid_format');
}

/** Counts characters as in JSON Schema: some are two units of a JavaScript text. */
function isLonger(text: string, most: number): boolean {
  return text.length > most && (text.length > 2 * most || Array.from(text).length > most);
}

export interface TextRules {
  /** The default is one line. */
  lines?: 'one' | 'many';
  pattern?: RegExp;
  check?: (value: string) => boolean;
  description?: string;
}

/** The limits of all fields are in one table. */
export function text(bound: TextBound, rules: TextRules = {}): Field<string> {
  const max = longest[bound];
  // One line: no control characters. Many: only NUL is refused, because no database or process can hold it.
  const unfit = rules.lines === 'many' ? /\0/ : /\p{Cc}/u;
  const schema: JsonSchema = { type: 'string', maxLength: max };
  if (rules.pattern) schema.pattern = rules.pattern.source;
  if (rules.description) schema.description = rules.description;
  return optional('', schema, (raw) => {
    if (typeof raw !== 'string' || isLonger(raw, max) || !raw.isWellFormed() || unfit.test(raw)) throw invalid();
    if (rules.pattern && !rules.pattern.test(raw)) throw invalid();
    if (rules.check && !rules.check(raw)) throw invalid();
    return raw;
  });
}

export function oneOf<const Choice extends string>(choices: readonly Choice[]): Field<Choice> {
  const [first] = choices;
  if (first === undefined) throw new Error('a choice needs at least one value');
  return optional<Choice>(first, { type: 'string', enum: [...choices] }, (raw) => {
    const choice = choices.find((one) => one === raw);
    if (choice === undefined) throw invalid();
    return choice;
  });
}

/** Stored as one text with commas. */
const withCommas = {
  toColumn: (list: readonly string[]): string => list.join(','),
  fromColumn: (column: string): string[] => (column === '' ? [] : column.split(',')),
};

const asJson = {
  toColumn: (list: readonly string[]): string => JSON.stringify(list),
  fromColumn: (column: string): string[] => JSON.parse(column) as string[],
};

/** Some of the choices, each once and in order. If none is named, all. */
export function severalOf<const Choice extends string>(
  choices: readonly Choice[],
  usual: readonly NoInfer<Choice>[] = choices,
): Field<Choice[], string> {
  const schema: JsonSchema = {
    type: 'array',
    items: { type: 'string', enum: [...choices] },
    maxItems: choices.length,
    uniqueItems: true,
    default: [...usual],
  };
  const parse = (raw: unknown): Choice[] => {
    if (!Array.isArray(raw)) throw invalid();
    const named = raw.filter((item) => !isBlank(item));
    const chosen = choices.filter((choice) => named.includes(choice));
    if (chosen.length !== named.length) throw invalid();
    return chosen.length === 0 ? [...usual] : chosen;
  };
  const fromColumn = (column: string): Choice[] => withCommas.fromColumn(column) as Choice[];
  return { ...optional([...usual], schema, parse), ...withCommas, fromColumn };
}

/** Stored as 1 or 0. */
export function flag(): Field<boolean, number> {
  const field = optional(false, { type: 'boolean', default: false }, (raw) => {
    if (raw === true || raw === 'true' || raw === '1') return true;
    if (raw === false || raw === 'false' || raw === '0') return false;
    throw invalid();
  });
  return { ...field, toColumn: Number, fromColumn: (column) => column === 1 };
}

/** null if the flag is unset. */
export function flagOrNone(description: string): Field<boolean | null, number | null> {
  const answer = flag();
  const field = optional<boolean | null>(null, { type: ['boolean', 'null'], default: null, description }, (raw) =>
    answer.parse(raw),
  );
  return {
    ...field,
    toColumn: (value) => (value === null ? null : Number(value)),
    fromColumn: (column) => (column === null ? null : column === 1),
  };
}

export function identifier(): Field<bigint | undefined> {
  return optional<bigint | undefined>(undefined, sentId, (raw) => {
    const id = parseId(digitsIn(raw));
    if (id === undefined) throw invalid();
    return id;
  });
}

/** Blank means none. */
export function identifierOrNone(description: string): Field<bigint | null> {
  const schema: JsonSchema = { ...sentId, type: [sentId.type, 'null'].flat() as never, description };
  return optional<bigint | null>(null, schema, (raw) => {
    const id = parseId(digitsIn(raw));
    if (id === undefined) throw invalid();
    return id;
  });
}

/** As text, blank for none: lists of records are JSON, where numbers have no 64 bits. */
export function identifierText(description: string): Field<string> {
  const field = identifierOrNone(description);
  return optional('', field.schema, (raw) => String(field.parse(raw)));
}

/** In the order sent. A form empties a list with a blank entry, which does not count. */
export function identifiers(bound: ListBound): Field<bigint[]> {
  const maxItems = most[bound];
  const schema: JsonSchema = { type: 'array', items: sentId, maxItems, uniqueItems: true };
  return optional<bigint[]>([], schema, (raw) => {
    if (!Array.isArray(raw)) throw invalid();
    const ids = raw.filter((item) => !isBlank(item)).map((item) => parseId(digitsIn(item)));
    const known = ids.filter((id) => id !== undefined);
    if (known.length !== ids.length || known.length > maxItems || new Set(known).size !== known.length) throw invalid();
    return known;
  });
}

export function storedIdentifiers(bound: ListBound, description: string): Field<bigint[], string> {
  return {
    ...described(identifiers(bound), description),
    toColumn: (ids) => JSON.stringify(ids.map(String)),
    fromColumn: (column) => (JSON.parse(column) as string[]).map(BigInt),
  };
}

/**
 * Identifiers of records, or their names with `$NAME` of a variant, as texts in the order sent. A form empties the list
 * with a blank entry.
 */
export function identifiersOrNames(
  bound: ListBound,
  name: Field<string>,
  description: string,
): Field<string[], string> {
  const maxItems = most[bound];
  const schema: JsonSchema = { type: 'array', items: { type: sentId.type ?? 'string' }, maxItems, description };
  const one = (raw: unknown): string => {
    if (typeof raw === 'string' && raw.includes('$')) return name.parse(raw);
    const id = parseId(digitsIn(raw));
    if (id === undefined) throw invalid();
    return String(id);
  };
  const parse = (raw: unknown): string[] => {
    if (!Array.isArray(raw)) throw invalid();
    const all = raw.filter((item) => !isBlank(item)).map(one);
    if (all.length > maxItems || new Set(all).size !== all.length) throw invalid();
    return all;
  };
  return { ...optional<string[]>([], { ...schema, uniqueItems: true }, parse), ...asJson };
}

/** Each text that was sent may contain several. */
function textsIn(raw: unknown, separator: RegExp): string[] {
  if (!Array.isArray(raw) || !raw.every((item) => typeof item === 'string')) throw invalid();
  return raw.flatMap((item) => item.split(separator));
}

export interface WordRules {
  most: ListBound;
  longest: TextBound;
  pattern: RegExp;
  description: string;
}

/** Sorted, each once. Blanks and commas also separate words, so a form needs no script. */
export function words({ pattern, description, ...bounds }: WordRules): Field<string[], string> {
  const maxItems = most[bounds.most];
  const maxLength = longest[bounds.longest];
  const items: JsonSchema = { type: 'string', maxLength, pattern: pattern.source };
  const parse = (raw: unknown): string[] => {
    const named = [...new Set(textsIn(raw, /[ ,]+/))].filter((word) => word !== '');
    const isFit = named.every((word) => !isLonger(word, maxLength) && pattern.test(word));
    if (named.length > maxItems || !isFit) throw invalid();
    return named.toSorted();
  };
  return { ...optional([], { type: 'array', items, maxItems, description }, parse), ...withCommas };
}

export interface LineRules {
  most: ListBound;
  longest: TextBound;
  check?: (line: string) => boolean;
  /** A line that was sent twice counts once. */
  isSet?: boolean;
  description: string;
}

/** In the order sent, trimmed, without blank lines. Line breaks also separate texts, so a form needs no script. */
export function lines({ check = () => true, isSet, description, ...bounds }: LineRules): Field<string[], string> {
  const maxItems = most[bounds.most];
  const maxLength = longest[bounds.longest];
  const items: JsonSchema = { type: 'string', maxLength };
  const isFit = (line: string): boolean =>
    !isLonger(line, maxLength) && line.isWellFormed() && !/\p{Cc}/u.test(line) && check(line);
  const parse = (raw: unknown): string[] => {
    const trimmed = textsIn(raw, /\r?\n/).map((line) => line.trim());
    const named = trimmed.filter((line) => line !== '');
    const kept = isSet ? [...new Set(named)] : named;
    if (kept.length > maxItems || !kept.every(isFit)) throw invalid();
    return kept;
  };
  return { ...optional([], { type: 'array', items, maxItems, description }, parse), ...asJson };
}

const momentForm = /^(\d{4}-\d{2}-\d{2})(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:\d{2}))?$/;

/** ISO 8601, in milliseconds since 1970. A date alone is midnight in UTC. */
export function moment(description: string): Field<bigint | undefined> {
  const schema: JsonSchema = { type: 'string', format: 'date-time', maxLength: longest.time, description };
  return optional<bigint | undefined>(undefined, schema, (raw) => {
    const isShort = typeof raw === 'string' && raw.length <= longest.time;
    const [all, date] = (isShort && momentForm.exec(raw.trim())) || [];
    const ms = Date.parse(all ?? '');
    // JavaScript takes the 31st of February for a day in March.
    const isDay =
      date !== undefined && !Number.isNaN(Date.parse(date)) && new Date(date).toISOString().startsWith(date);
    if (Number.isNaN(ms) || !isDay) throw invalid();
    return BigInt(ms);
  });
}

/** By names that the caller chooses (`variables[NAME]=value`), as JSON. A mistake is reported under its name. */
export function texts(
  name: Field<string>,
  value: Field<string>,
  bound: ListBound & keyof typeof bytes,
): Field<Record<string, string>, string> {
  const schema: JsonSchema = { type: 'object', additionalProperties: value.schema };
  const parse = (raw: unknown): Record<string, string> => {
    if (typeof raw !== 'object' || raw === null || Array.isArray(raw) || raw instanceof Digits) throw invalid();
    const entries = Object.entries(raw);
    if (entries.length > most[bound]) throw invalid();
    const errors: FieldErrors = {};
    const parsed: [string, string][] = [];
    for (const [key, one] of entries) {
      try {
        parsed.push([name.parse(key), value.parse(one)]);
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        errors[`[${key}]`] = Object.values(error.fields).flat();
      }
    }
    if (Object.keys(errors).length > 0) throw ApiError.ofFields(errors);
    const read = Object.fromEntries(parsed); // also for the name __proto__
    if (Buffer.byteLength(JSON.stringify(read)) > bytes[bound]) throw invalid();
    return read;
  };
  const column = { toColumn: JSON.stringify, fromColumn: (text: string) => JSON.parse(text) as Record<string, string> };
  return { ...optional({}, schema, parse), ...column };
}

export function wholeNumber({ min, max, fallback }: { min: number; max: number; fallback: number }): Field<number> {
  return optional(fallback, { type: 'integer', minimum: min, maximum: max, default: fallback }, (raw) => {
    const digits = digitsIn(raw);
    if (!/^-?[0-9]{1,15}$/.test(digits)) throw invalid();
    const value = Number(digits) || 0; // no negative zero
    if (value < min || value > max) throw invalid();
    return value;
  });
}

export function required<T, Column>(field: Field<T, Column>): Field<Exclude<T, undefined>, Column> {
  const isFreeText = field.schema.type === 'string' && field.schema.enum === undefined;
  const schema = { ...field.schema, ...(isFreeText && { minLength: 1 }) };
  return { ...(field as unknown as Field<Exclude<T, undefined>, Column>), required: true, schema };
}

export function described<T, Column>(field: Field<T, Column>, description: string): Field<T, Column> {
  return { ...field, schema: { ...field.schema, description } };
}

export function withDefault<T, Column>(field: Field<T, Column>, fallback: T): Field<T, Column> {
  return { ...field, fallback, schema: { ...field.schema, default: fallback } };
}

/** `refine` changes the value after it was read, or refuses it with undefined. */
export function refined<T, Column>(field: Field<T, Column>, refine: (value: T) => T | undefined): Field<T, Column> {
  const parse = (raw: unknown): T => {
    const value = refine(field.parse(raw));
    if (value === undefined) throw invalid();
    return value;
  };
  return { ...field, parse };
}

/** Keeps white space and the empty text unchanged. */
export function takingBlank<T, Column>(field: Field<T, Column>): Field<T, Column> {
  return { ...field, takesBlank: true };
}

function optional<T>(fallback: T, schema: JsonSchema, parse: (raw: unknown) => T): Field<T> {
  return { required: false, fallback, schema, parse, toColumn: (value) => value, fromColumn: (column) => column };
}
