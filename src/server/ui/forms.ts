import type { ErrorCode, FieldErrors } from '../../shared/errors.ts';
import { isGroup, type RawGroup } from '../../shared/records/raw.ts';
import { html, type Html } from './html.ts';
import { keyField, notice } from './layout.ts';

/**
 * Each form is one action of its page, and each action is one route of the API, with the same field names. If the API
 * refuses, the page returns with the user's input and an error at each wrong field.
 */

export interface Refused {
  action: string;
  typed: RawGroup;
  errors: FieldErrors;
  message?: string | undefined;
  /** The words of another service. They replace ours. */
  words?: string | undefined;
}

export interface FormVisit {
  formKey: string;
  path: string;
  refused: Refused | undefined;
}

interface FieldOptions {
  value?: string | undefined;
  hint?: string | Html | undefined;
  required?: boolean;
  wrong?: string;
  placeholder?: string;
  rows?: number;
  type?: 'text' | 'email' | 'url' | 'password' | 'number';
  maxlength?: number;
  isCode?: boolean;
  autocomplete?: string;
  list?: readonly string[];
}

interface ButtonOptions {
  button: string;
  kind?: 'main' | 'danger' | 'quiet' | 'plain';
  label?: string;
  isInline?: boolean;
  isCard?: boolean;
  /** ID of an element that describes the button, such as the thing that it deletes. */
  describedBy?: string;
}

export interface PageForm {
  text(name: string, label: string, options?: FieldOptions): Html;
  /** Several words in one line, sent as a list. */
  words(name: string, label: string, options?: FieldOptions): Html;
  area(name: string, label: string, options?: FieldOptions): Html;
  /** One text per line, sent as a list. */
  lines(name: string, label: string, options?: FieldOptions): Html;
  select(name: string, label: string, choices: readonly (readonly [string, string])[], options?: FieldOptions): Html;
  check(name: string, label: string, options?: { checked?: boolean } & Pick<FieldOptions, 'hint' | 'wrong'>): Html;
  checks(
    name: string,
    legend: string,
    choices: readonly (readonly [string, string])[],
    checked: readonly string[],
  ): Html;
  hidden(name: string, value: string | bigint): Html;
  /** After a refusal, the user's input. */
  shown(name: string, value: string): string;
  /** For a field that is sent as a list, without blank lines. */
  shownList(name: string, values: readonly string[]): string[];
  /** Folded fields, with a line that shows their values. Open if one of them is wrong. */
  group(names: readonly string[], summary: string, fields: Html): Html;
  part(names: readonly string[], summary: string, fields: Html): Html;
  wrap(fields: Html, options: ButtonOptions): Html;
}

/** `of` distinguishes forms of the same action by hidden fields, such as `{rule_id: …}`. */
export function pageForm(visit: FormVisit, action: string, of: Record<string, string> = {}): PageForm {
  const { refused: given } = visit;
  const isThis = given?.action === action && Object.entries(of).every(([name, value]) => given.typed[name] === value);
  const refused = isThis ? given : undefined;
  const prefix = [action, ...Object.values(of)].join('-');
  const idOf = (name: string): string => `${prefix}-${name.replaceAll(/\W+/g, '_')}`;
  const typed = (name: string, value: string): string => (refused ? typedIn(refused.typed, name) : value);
  const typedList = (name: string, values: readonly string[]): readonly string[] =>
    refused ? listTyped(refused.typed, name) : values;
  const field = (
    name: string,
    label: string,
    { hint, wrong }: FieldOptions,
    control: (attributes: Html) => Html,
    sentAs = name,
  ): Html => {
    const id = idOf(name);
    const wrongs = Object.entries(refused?.errors ?? {})
      .filter(([at]) => at === name || isInside(at, name))
      .map(([at, codes]) => mistake(at === name ? label : at.slice(name.length + 1, -1), codes, wrong));
    const described = [hint !== undefined && `${id}-hint`, wrongs.length > 0 && `${id}-mistake`].filter(Boolean);
    const attributes = html`id="${id}" name="${sentAs}"
    ${described.length > 0 && html`aria-describedby="${described.join(' ')}"`}
    ${wrongs.length > 0 && html`aria-invalid="true"`}`;
    return html`<div class="field">
      <label for="${id}">${label}</label>
      ${hint !== undefined && html`<p class="hint" id="${id}-hint">${hint}</p>`} ${control(attributes)}
      ${wrongs.length > 0 && html`<p class="mistake" id="${id}-mistake" role="alert">${[...new Set(wrongs)].join(' ')}</p>`}
    </div>`;
  };
  const known = new Set<string>();
  const folded = (kind: 'group' | 'part', names: readonly string[], summary: string, fields: Html): Html => {
    const isWrong = names.some((name) => (refused?.errors[name] ?? []).length > 0);
    return html`<details class="${kind}" ${isWrong && html`open`}>
      <summary>${summary}</summary>
      ${fields}
    </details>`;
  };
  return {
    text(name, label, options = {}) {
      known.add(name);
      const { type = 'text', required, placeholder, maxlength, isCode, autocomplete = 'off', list } = options;
      const listId = `${idOf(name)}-list`;
      // A page never contains a secret that a user typed.
      const value = type === 'password' ? '' : typed(name, options.value ?? '');
      return field(
        name,
        label,
        options,
        (attributes) =>
          html`<input
              ${attributes}
              type="${type}"
              value="${value}"
              autocomplete="${autocomplete}"
              ${required && html`required`}
              ${isCode && html`class="code" spellcheck="false" autocapitalize="off"`}
              ${placeholder !== undefined && html`placeholder="${placeholder}"`}
              ${maxlength !== undefined && html`maxlength="${maxlength}"`}
              ${list && html`list="${listId}"`}
            />
            ${list && html`<datalist id="${listId}">${list.map((one) => html`<option value="${one}"></option>`)}</datalist>`}`,
      );
    },
    words(name, label, options = {}) {
      known.add(name);
      const value = refused ? listTyped(refused.typed, name).join(' ') : options.value;
      return field(
        name,
        label,
        options,
        (attributes) =>
          html`<input ${attributes} type="text" value="${value ?? ''}" autocomplete="off" autocapitalize="off" />`,
        `${name}[]`,
      );
    },
    area(name, label, options = {}) {
      known.add(name);
      const text = typed(name, options.value ?? '');
      return field(name, label, options, (attributes) => textArea(attributes, text, options));
    },
    lines(name, label, options = {}) {
      known.add(name);
      const text = refused ? listTyped(refused.typed, name).join('\n') : (options.value ?? '');
      return field(name, label, options, (attributes) => textArea(attributes, text, options), `${name}[]`);
    },
    select(name, label, choices, options = {}) {
      known.add(name);
      const chosen = typed(name, options.value ?? '');
      return field(
        name,
        label,
        options,
        (attributes) =>
          html`<select ${attributes}>
            ${choices.map(
              ([value, text]) => html`<option value="${value}" ${value === chosen && html`selected`}>${text}</option>`,
            )}
          </select>`,
      );
    },
    check(name, label, { checked = false, hint, wrong } = {}) {
      known.add(name);
      const isOn = refused ? typedIn(refused.typed, name) === 'true' : checked;
      const id = idOf(name);
      const codes = refused?.errors[name] ?? [];
      return html`<div class="field">
        <input type="hidden" name="unchecked[]" value="${name}" />
        <label class="check" for="${id}">
          <input
            type="checkbox"
            id="${id}"
            name="${name}"
            value="true"
            ${isOn && html`checked`}
            ${hint !== undefined && html`aria-describedby="${id}-hint"`}
          />
          <span>${label}</span>
        </label>
        ${hint !== undefined && html`<p class="hint" id="${id}-hint">${hint}</p>`}
        ${codes.length > 0 && html`<p class="mistake" role="alert">${mistake(label, codes, wrong)}</p>`}
      </div>`;
    },
    checks(name, legend, choices, checked) {
      known.add(name);
      const chosen = typedList(name, checked);
      const codes = refused?.errors[name] ?? [];
      return html`<fieldset class="field">
        <legend>${legend}</legend>
        ${choices.map(([value, text]) => {
          const id = `${idOf(name)}-${value}`;
          return html`<label class="check" for="${id}">
            <input
              type="checkbox"
              id="${id}"
              name="${name}[]"
              value="${value}"
              ${chosen.includes(value) && html`checked`}
            />
            <span>${text}</span>
          </label>`;
        })}
        ${codes.length > 0 && html`<p class="mistake" role="alert">${mistake(legend, codes)}</p>`}
      </fieldset>`;
    },
    hidden: (name, value) => html`<input type="hidden" name="${name}" value="${value}" />`,
    shown: typed,
    shownList: (name, values) =>
      typedList(name, values)
        .flatMap((text) => text.split('\n'))
        .filter((line) => line.trim() !== ''),
    group: (names, summary, fields) => folded('group', names, summary, fields),
    part: (names, summary, fields) => folded('part', names, summary, fields),
    wrap(fields, { button, kind = 'main', label, isInline, isCard, describedBy }) {
      const classes = [isInline && 'inline', isCard && 'card'].filter(Boolean).join(' ');
      const about = Object.entries(of).map(
        ([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`,
      );
      return html`<form
        method="post"
        action="${visit.path}"
        ${classes !== '' && html`class="${classes}"`}
        ${label !== undefined && html`aria-label="${label}"`}
      >
        ${keyField(visit.formKey)}<input type="hidden" name="do" value="${action}" />${about}
        ${refused && general(refused, known)} ${fields}
        <button class="${kind}" ${describedBy !== undefined && html`aria-describedby="${describedBy}"`}>
          ${button}
        </button>
      </form>`;
    },
  };
}

function textArea(attributes: Html, text: string, options: FieldOptions): Html {
  const { required, rows = 4, isCode, placeholder } = options;
  return html`<textarea
    ${attributes}
    rows="${rows}"
    ${required && html`required`}
    ${isCode && html`class="code" spellcheck="false" autocapitalize="off"`}
    ${placeholder !== undefined && html`placeholder="${placeholder}"`}
  >
${text}</textarea>`;
}

function typedIn(typed: RawGroup, name: string): string {
  const value = valueTyped(typed, name);
  return typeof value === 'string' ? value : '';
}

function valueTyped(typed: RawGroup, name: string): RawGroup[string] | undefined {
  let at: RawGroup[string] | undefined = typed;
  for (const part of name.split(/[[\]]+/)) if (part !== '') at = isGroup(at) ? at[part] : undefined;
  return at;
}

function listTyped(typed: RawGroup, name: string): string[] {
  const list = valueTyped(typed, name);
  return Array.isArray(list) ? list.filter((one) => typeof one === 'string') : [];
}

function isInside(name: string, field: string): boolean {
  return name.startsWith(`${field}[`);
}

function general({ errors, message, words: told }: Refused, known: ReadonlySet<string>): Html | false {
  if (told !== undefined) return notice('bad', told);
  const isShown = (name: string): boolean => known.has(name) || [...known].some((field) => isInside(name, field));
  const others = Object.entries(errors).filter(([name]) => !isShown(name));
  if (others.length === 0) return false;
  const words = others.map(([name, codes]) =>
    name === 'generic' ? generic(codes) : mistake(name.replaceAll('_', ' '), codes),
  );
  return notice('bad', message ?? words.join(' '));
}

function generic(codes: readonly ErrorCode[]): string {
  if (codes.includes('resource_temporary_unavailable')) {
    return 'This cannot be done now: something else is under way, or was done in the meantime. Look again and try once more.';
  }
  if (codes.includes('is_reserved')) return 'There are as many of these as there can be. Delete one first.';
  return mistake('This', codes);
}

const mistakes: Partial<Record<ErrorCode, (label: string) => string>> = {
  is_blank: (label) => `${label} is missing.`,
  already_exists: (label) => `${label} is taken already.`,
  is_reserved: (label) => `${label} is reserved: choose another.`,
  not_found: (label) => `${label} names nothing that is there.`,
  resource_temporary_unavailable: (label) => `${label} cannot be changed now. Try again in a while.`,
};

function mistake(label: string, codes: readonly ErrorCode[], wrong?: string): string {
  return codes
    .map(
      (code) =>
        (code === 'invalid_format' && wrong) || (mistakes[code]?.(label) ?? `${label} does not have the right form.`),
    )
    .join(' ');
}
