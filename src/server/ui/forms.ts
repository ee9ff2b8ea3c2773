import type { ErrorCode, FieldErrors } from '../../shared/errors.ts';
import { pathOf } from '../../shared/records/fields.ts';
import type { RawGroup } from '../../shared/records/raw.ts';
import { controlHtml, wordsOf, type Choices, type FieldTable, type FieldTexts } from './controls.ts';
import { html, type Html } from './html.ts';
import { keyField, notice } from './layout.ts';
import { mistake } from './mistakes.ts';
import { fact, lines } from './parts.ts';

/**
 * Each form is an action of its page, and each action is a route of the API with the same field names. If the API
 * refuses the form, the page shows it again with the user's input, and an error at each wrong field.
 */

export interface Refused {
  action: string;
  typed: RawGroup;
  errors: FieldErrors;
  message?: string | undefined;
  /** The message of another service, such as a forge. It replaces ours. */
  words?: string | undefined;
}

export interface FormVisit {
  formKey: string;
  path: string;
  refused: Refused | undefined;
}

interface ButtonOptions {
  button: string;
  kind?: 'main' | 'danger' | 'quiet' | 'plain';
  label?: string;
  isInline?: boolean;
  isCard?: boolean;
  /** ID of the element that describes the button, such as the record that it deletes. */
  describedBy?: string;
}

type Changes = Partial<FieldTexts> & { value?: unknown };

/** The fields of a table. They show the values of a record, or the user's input after a refusal. */
export interface Fields<Name extends string> {
  field(name: Name, changes?: Changes): Html;
  /** Without names, all fields of the table. */
  fields(...names: Name[]): Html;
  /** The values as text, for a user who cannot change them. */
  facts(): Html;
  /** The value that the field shows. */
  shown(name: Name): string;
  /** The lines that the field shows, without blank lines. */
  shownList(name: Name): string[];
  /** How many records the list field shows. */
  count(name: Name): number;
  /** Folded fields, with a line that shows their values. The group is open if a field has a mistake. */
  group(names: readonly Name[], summary: string, fields?: Html): Html;
  /** A folded part with all fields of the table: one row of a list. */
  part(summary: string, fields: Html): Html;
  /** The fields of one record in a list field. */
  inside<Inner extends string>(name: Name, number: number, table: FieldTable<Inner>): Fields<Inner>;
}

export interface PageForm<Name extends string = never> extends Fields<Name> {
  wrap(fields: Html | false, options: ButtonOptions): Html;
}

const noFields: FieldTable<never> = { fields: {}, texts: {} };

/** A form with only a button. Its hidden fields `of` distinguish forms of the same action, such as `{rule_id: …}`. */
export function pageForm(visit: FormVisit, action: string, of?: Record<string, string>): PageForm {
  return recordForm(visit, action, noFields, undefined, of);
}

/** Without a record, fields show their defaults. */
export function recordForm<Name extends string>(
  visit: FormVisit,
  action: string,
  table: FieldTable<Name>,
  record?: object,
  of: Record<string, string> = {},
): PageForm<Name> {
  const { refused: given } = visit;
  const isThis = given?.action === action && Object.entries(of).every(([name, value]) => given.typed[name] === value);
  const refused = isThis ? given : undefined;
  const known = new Set<string>();
  const prefix = [action, ...Object.values(of)].join('-');
  return {
    ...fieldsOf({ refused, known, prefix }, table, record),
    wrap(fields, { button, kind = 'main', label, isInline, isCard, describedBy }) {
      const classes = [isInline && 'inline', isCard && 'card'].filter(Boolean).join(' ');
      return html`<form
        method="post"
        action="${visit.path}"
        ${classes !== '' && html`class="${classes}"`}
        ${label !== undefined && html`aria-label="${label}"`}
      >
        ${keyField(visit.formKey)}${Object.entries({ do: action, ...of }).map(([name, value]) => hidden(name, value))}
        ${refused && general(refused, known)} ${fields}
        <button class="${kind}" ${describedBy !== undefined && html`aria-describedby="${describedBy}"`}>
          ${button}
        </button>
      </form>`;
    },
  };
}

export function hidden(name: string, value: string | bigint): Html {
  return html`<input type="hidden" name="${name}" value="${value}" />`;
}

interface Form {
  refused: Refused | undefined;
  /** Fields that show their own mistakes. */
  known: Set<string>;
  prefix: string;
}

function fieldsOf<Name extends string>(
  form: Form,
  { fields: all, texts }: FieldTable<Name>,
  record: object | undefined,
  within?: string,
): Fields<Name> {
  const { refused, known, prefix } = form;
  const names = Object.keys(texts) as Name[];
  const sentAs = (name: string): string => (within === undefined ? name : `${within}[${name}]`);
  const valuesOf = (name: string, value?: unknown): readonly string[] => {
    if (refused) return textsIn(at(refused.typed, sentAs(name)));
    return textsIn(value ?? (record ? at(record, name) : all[name]?.fallback));
  };
  const shownList = (name: string): string[] =>
    valuesOf(name)
      .flatMap((text) => text.split('\n'))
      .filter((line) => line.trim() !== '');
  const field = (name: Name, { value, ...changes }: Changes = {}): Html => {
    const sent = sentAs(name);
    known.add(sent);
    const about = { ...texts[name], ...changes };
    const { schema = {}, required = false } = all[name] ?? {};
    const values = valuesOf(name, value);
    const mistakes = Object.entries(refused?.errors ?? {})
      .filter(([wrong]) => wrong === sent || isInside(wrong, sent))
      .map(([wrong, codes]) => {
        const label = wrong === sent ? about.label : wrong.slice(sent.length + 1, -1);
        return mistake(codes, { label, schema, wrong: about.wrong, text: values.join('\n') });
      });
    const id = `${prefix}-${sent.replaceAll(/\W+/g, '_')}`;
    return controlHtml({ required, ...about, id, name: sent, schema, values, mistakes: [...new Set(mistakes)] });
  };
  const fields = (...some: Name[]): Html => html`${(some.length === 0 ? names : some).map((name) => field(name))}`;
  const folded = (kind: 'group' | 'part', some: readonly Name[], summary: string, content = fields(...some)): Html => {
    const isWrong = Object.keys(refused?.errors ?? {}).some((wrong) =>
      some.map(sentAs).some((sent) => wrong === sent || isInside(wrong, sent)),
    );
    return html`<details class="${kind}" ${kind === 'part' && html`data-row`} ${isWrong && html`open`}>
      <summary>${summary}</summary>
      ${content}
    </details>`;
  };
  return {
    field,
    fields,
    facts: () =>
      html`<dl class="facts card">
        ${names.map((name) => {
          const { label, isCode, choices = all[name]?.schema.type === 'boolean' ? flagWords : [] } = texts[name];
          return fact(label, words(valuesOf(name), choices, isCode));
        })}
      </dl>`,
    shown: (name) => valuesOf(name)[0] ?? '',
    shownList,
    count: (name) => recordsIn(refused ? at(refused.typed, sentAs(name)) : at(record ?? {}, name)),
    group: (...parts) => folded('group', ...parts),
    part: (...rest) => folded('part', names, ...rest),
    // These fields have no defaults, because an empty record is ignored.
    inside: (name, number, table) => {
      const list = at(record ?? {}, name);
      const inner: unknown = Array.isArray(list) ? list[number] : undefined;
      return fieldsOf(form, table, isTable(inner) ? inner : {}, `${sentAs(name)}[${number}]`);
    },
  };
}

const flagWords: Choices = [
  ['true', 'Yes'],
  ['false', 'No'],
];

function words(values: readonly string[], choices: Choices, isCode = false): Html {
  const text = values.map((value) => wordsOf(choices, value)).join(', ') || '–';
  return isCode && text !== '–' ? html`<code>${text}</code>` : html`${text}`;
}

function at(group: object, name: string): unknown {
  let value: unknown = group;
  for (const part of pathOf(name)) value = isTable(value) ? value[part] : undefined;
  return value;
}

const isTable = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null;

/** If a field names records, their IDs are shown. */
function textsIn(value: unknown): readonly string[] {
  if (Array.isArray(value)) return value.flatMap(textsIn);
  if (isTable(value)) return textsIn(value.id_str);
  if (typeof value === 'string') return [value];
  return typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean' ? [String(value)] : [];
}

/** A form sends the records of a list with their numbers. */
function recordsIn(value: unknown): number {
  if (Array.isArray(value)) return value.length;
  if (!isTable(value)) return 0;
  const numbers = Object.keys(value).filter((name) => /^\d{1,4}$/.test(name));
  return numbers.length === 0 ? 0 : Math.max(...numbers.map(Number)) + 1;
}

function isInside(name: string, field: string): boolean {
  return name.startsWith(`${field}[`);
}

function general({ errors, message, words: told }: Refused, known: ReadonlySet<string>): Html | false {
  if (told !== undefined) return notice('bad', lines(told));
  const isShown = (name: string): boolean => known.has(name) || [...known].some((field) => isInside(name, field));
  const others = Object.entries(errors).filter(([name]) => !isShown(name));
  if (others.length === 0) return false;
  const words = others.map(([name, codes]) =>
    name === 'generic' ? generic(codes) : mistake(codes, { label: name.replaceAll('_', ' ') }),
  );
  return notice('bad', message ?? words.join(' '));
}

function generic(codes: readonly ErrorCode[]): string {
  if (codes.includes('resource_temporary_unavailable')) {
    return 'This cannot be done now: something else is under way, or was done in the meantime. Look again and try once more.';
  }
  if (codes.includes('is_reserved')) return 'The limit is reached. Delete one first.';
  return mistake(codes, { label: 'This' });
}
