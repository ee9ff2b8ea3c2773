import { ApiError, type FieldErrors } from '../errors.ts';
import { longest, most, type ListBound, type TextBound } from '../lib/bounds.ts';
import { parseId } from '../lib/ids.ts';
import { Digits, isGroup, repeated, type Raw, type RawGroup } from './raw.ts';
import { sentId, type JsonSchema } from './schema.ts';

/** How one field is read. `parse` throws an ApiError, whose code is reported under the field's name. */
export interface Field<T> {
  readonly required: boolean;
  /** The value of an optional field that was not sent, or sent blank. */
  readonly fallback: T;
  readonly schema: JsonSchema;
  /** Whether white space alone is a valid value. */
  readonly takesBlank?: boolean;
  parse(raw: Raw): T;
}

/** Fields by name; brackets nest (`options[url]`), and `[]` at the end makes a list. */
export type FieldSet = Record<string, Field<unknown>>;

export type NoFields = Record<string, never>;

export type ValuesOf<F extends FieldSet> = { [Name in keyof F]: F[Name] extends Field<infer T> ? T : never };

export interface Reading<F extends FieldSet> {
  /** The fields that could be read. */
  values: Partial<ValuesOf<F>>;
  errors: FieldErrors;
}

/**
 * Reads every field and reports all errors. On creation, a field that was not sent gets its fallback; on a change, it
 * is left out of the values.
 */
export function readFields<F extends FieldSet>(fields: F, sent: RawGroup, purpose: 'create' | 'change'): Reading<F> {
  const values: Record<string, unknown> = {};
  const errors: FieldErrors = {};
  for (const { name, shown, path, field } of planOf(fields).places) {
    const raw = lookUp(sent, path);
    if (raw === undefined && purpose === 'change') continue;
    if (raw === undefined || raw === null || (isBlank(raw) && !field.takesBlank)) {
      if (field.required) errors[shown] = ['is_blank'];
      else values[name] = field.fallback;
      continue;
    }
    try {
      values[name] = field.parse(raw);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      errors[shown] = Object.values(error.fields).flat();
    }
  }
  return { values: values as Partial<ValuesOf<F>>, errors };
}

/** Where the fields of a route are found; computed once, because it is the same for every request. */
interface Plan {
  places: { name: string; shown: string; path: string[]; field: Field<unknown> }[];
  known: ReadonlySet<string>;
}

const plans = new WeakMap<FieldSet, Plan>();

function planOf(fields: FieldSet): Plan {
  const made = plans.get(fields);
  if (made) return made;
  const places = Object.entries(fields).map(([name, field]) => {
    const shown = fieldName(name);
    return { name, shown, path: shown.split(/[[\]]+/).filter((part) => part !== ''), field };
  });
  const plan = { places, known: new Set(places.map(({ shown }) => shown)) };
  plans.set(fields, plan);
  return plan;
}

/**
 * The names that were sent and that no field has, each with an error. This finds a value that was cut in two by an
 * unencoded `&`, so that its first part is not taken for the whole.
 */
export function unknownFields(fields: FieldSet, sent: RawGroup): FieldErrors {
  const errors: FieldErrors = {};
  noteUnknown(errors, sent, planOf(fields).known, '');
  return errors;
}

/** Reports everything that is sent except known fields, which are read elsewhere in any shape. */
function noteUnknown(errors: FieldErrors, group: RawGroup, known: ReadonlySet<string>, within: string): void {
  for (const part of Object.keys(group)) {
    const name = within === '' ? part : `${within}[${part}]`;
    if (known.has(name)) continue;
    const raw = group[part];
    if (raw === undefined) continue;
    if (isGroup(raw) && Object.keys(raw).length > 0) noteUnknown(errors, raw, known, name);
    else if (!isGroupOf(known, name, raw)) errors[name] = ['invalid_format'];
  }
}

/** An empty group of known fields is no error; a group that was sent twice is reported by its fields. */
function isGroupOf(known: ReadonlySet<string>, name: string, raw: Raw): boolean {
  return (isGroup(raw) || raw === repeated) && [...known].some((one) => one.startsWith(`${name}[`));
}

/** Errors in a list are reported under the list's name, however it was spelled. */
function fieldName(name: string): string {
  return name.endsWith('[]') ? name.slice(0, -2) : name;
}

function lookUp(sent: RawGroup, path: readonly string[]): Raw | undefined {
  let at: Raw | undefined = sent;
  for (const part of path) {
    if (!isGroup(at)) return at === repeated ? repeated : undefined;
    at = at[part];
  }
  return at;
}

function isBlank(raw: Raw): boolean {
  return typeof raw === 'string' && raw.trim() === '';
}

/** The text of a number: JSON may have it as one, a form as text only. */
export function digitsIn(raw: Raw): string {
  if (raw instanceof Digits) return raw.digits;
  return typeof raw === 'string' ? raw : '';
}

function invalid(): ApiError {
  return new ApiError('invalid_format');
}

/** Whether a text has more characters, as JSON Schema counts them: some are two units of a JavaScript text. */
function isLonger(text: string, most: number): boolean {
  return text.length > most && (text.length > 2 * most || Array.from(text).length > most);
}

export interface TextRules {
  /** Whether it may contain line breaks. */
  lines?: 'one' | 'many';
  pattern?: RegExp;
  check?: (value: string) => boolean;
  description?: string;
}

/** A text without a bound does not compile: the bounds of all fields stand in one table. */
export function text(bound: TextBound, rules: TextRules = {}): Field<string> {
  const max = longest[bound];
  // One line: no control characters at all. Many: only NUL is refused, because no database and no process can hold it.
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

/** A list of some of the choices, each once and in order; all choices where none is named. */
export function severalOf<const Choice extends string>(choices: readonly Choice[]): Field<Choice[]> {
  const schema: JsonSchema = {
    type: 'array',
    items: { type: 'string', enum: [...choices] },
    maxItems: choices.length,
    uniqueItems: true,
    default: [...choices],
  };
  return optional<Choice[]>([...choices], schema, (raw) => {
    if (!Array.isArray(raw)) throw invalid();
    const named = raw.filter((item) => !isBlank(item));
    const chosen = choices.filter((choice) => named.includes(choice));
    if (chosen.length !== named.length) throw invalid();
    return chosen.length === 0 ? [...choices] : chosen;
  });
}

export function flag(): Field<boolean> {
  return optional(false, { type: 'boolean', default: false }, (raw) => {
    if (raw === true || raw === 'true' || raw === '1') return true;
    if (raw === false || raw === 'false' || raw === '0') return false;
    throw invalid();
  });
}

export function identifier(): Field<bigint | undefined> {
  return optional<bigint | undefined>(undefined, sentId, (raw) => {
    const id = parseId(digitsIn(raw));
    if (id === undefined) throw invalid();
    return id;
  });
}

export function requiredIdentifier(): Field<bigint> {
  return { ...(identifier() as Field<bigint>), required: true };
}

/** A list of identifiers, in the order sent; blank entries (with which a form empties a list) do not count. */
export function identifiers(bound: ListBound): Field<bigint[]> {
  const maxItems = most[bound];
  const schema: JsonSchema = { type: 'array', items: sentId, maxItems, uniqueItems: true };
  return optional([], schema, (raw) => {
    if (!Array.isArray(raw)) throw invalid();
    const ids = raw.filter((item) => !isBlank(item)).map((item) => parseId(digitsIn(item)));
    const known = ids.filter((id) => id !== undefined);
    if (known.length !== ids.length || known.length > maxItems || new Set(known).size !== known.length) throw invalid();
    return known;
  });
}

export interface WordRules {
  most: ListBound;
  longest: TextBound;
  pattern: RegExp;
  description: string;
}

/**
 * A list of words, sorted and each once. Blanks and commas, which no word has, separate words as well, so that a form
 * with one line for all of them needs no script; entries without a word do not count.
 */
export function words({ pattern, description, ...bounds }: WordRules): Field<string[]> {
  const maxItems = most[bounds.most];
  const maxLength = longest[bounds.longest];
  const items: JsonSchema = { type: 'string', maxLength, pattern: pattern.source };
  return optional<string[]>([], { type: 'array', items, maxItems, description }, (raw) => {
    if (!Array.isArray(raw)) throw invalid();
    const texts = raw.filter((item) => typeof item === 'string');
    const named = new Set(texts.flatMap((line) => line.split(/[ ,]+/)).filter((word) => word !== ''));
    if (texts.length !== raw.length || named.size > maxItems) throw invalid();
    if (![...named].every((word) => !isLonger(word, maxLength) && pattern.test(word))) throw invalid();
    return [...named].toSorted();
  });
}

export interface LineRules {
  most: ListBound;
  longest: TextBound;
  /** Whether a line is one of those that the field takes, if not every line is. */
  check?: (line: string) => boolean;
  /** Whether a line that was sent twice counts once. */
  isSet?: boolean;
  description: string;
}

/**
 * A list of texts of one line each, in the order sent, without blanks around them. Line breaks separate texts as well, so
 * that a form with one text area for all of them needs no script; blank texts do not count.
 */
export function lines({ check = () => true, isSet = false, description, ...bounds }: LineRules): Field<string[]> {
  const maxItems = most[bounds.most];
  const maxLength = longest[bounds.longest];
  const items: JsonSchema = { type: 'string', maxLength };
  const isFit = (line: string): boolean =>
    !isLonger(line, maxLength) && line.isWellFormed() && !/\p{Cc}/u.test(line) && check(line);
  return optional<string[]>([], { type: 'array', items, maxItems, description }, (raw) => {
    if (!Array.isArray(raw)) throw invalid();
    const texts = raw.filter((item) => typeof item === 'string');
    if (texts.length !== raw.length) throw invalid();
    const named = texts.flatMap((item) => item.split(/\r?\n/)).map((line) => line.trim());
    const filled = named.filter((line) => line !== '');
    const kept = isSet ? [...new Set(filled)] : filled;
    if (kept.length > maxItems || !kept.every(isFit)) throw invalid();
    return kept;
  });
}

export function wholeNumber({ min, max, fallback }: { min: number; max: number; fallback: number }): Field<number> {
  return optional(fallback, { type: 'integer', minimum: min, maximum: max, default: fallback }, (raw) => {
    const digits = digitsIn(raw);
    if (!/^[0-9]{1,15}$/.test(digits)) throw invalid();
    const value = Number(digits);
    if (value < min || value > max) throw invalid();
    return value;
  });
}

export function required<T>(field: Field<T>): Field<T> {
  const isFreeText = field.schema.type === 'string' && field.schema.enum === undefined;
  return { ...field, required: true, schema: { ...field.schema, ...(isFreeText && { minLength: 1 }) } };
}

/** The same field, with words for the OpenAPI document. */
export function described<T>(field: Field<T>, description: string): Field<T> {
  return { ...field, schema: { ...field.schema, description } };
}

export function withDefault<T>(field: Field<T>, fallback: T): Field<T> {
  return { ...field, fallback, schema: { ...field.schema, default: fallback } };
}

/** The same field, whose values are stored in another form. */
export function storedAs<T, Stored>(field: Field<T>, toStored: (value: T) => Stored): Field<Stored> {
  return { ...field, fallback: toStored(field.fallback), parse: (raw) => toStored(field.parse(raw)) };
}

/** Keeps white space and the empty text as they were sent. */
export function takingBlank<T>(field: Field<T>): Field<T> {
  return { ...field, takesBlank: true };
}

function optional<T>(fallback: T, schema: JsonSchema, parse: (raw: Raw) => T): Field<T> {
  return { required: false, fallback, schema, parse };
}
