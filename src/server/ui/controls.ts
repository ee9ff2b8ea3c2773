import type { FieldSet } from '../../shared/records/fields.ts';
import type { JsonSchema } from '../../shared/records/schema.ts';
import { html, type Html } from './html.ts';
import type { Wrong } from './mistakes.ts';

export type Choices = readonly (readonly [value: string, words: string])[];

/** A form's texts for a record's field. The field defines its kind, default, limits and whether it is required. */
export interface FieldTexts {
  label: string;
  hint?: string | Html;
  wrong?: Wrong;
  placeholder?: string;
  isCode?: boolean;
  /** The minimum number of lines shown. Without it, a text has one line, and a list is one line of words. */
  rows?: number;
  /** The possible values with their words, or all records that the field may name. */
  choices?: Choices;
  type?: 'email' | 'password' | 'date';
  required?: boolean;
}

/** The fields of a form, in their order. */
export interface FieldTable<Name extends string = string> {
  fields: FieldSet;
  texts: Readonly<Record<Name, FieldTexts>>;
}

export type NamesIn<Table> = Table extends FieldTable<infer Name> ? Name : never;

export function fieldTable<F extends FieldSet, const Name extends keyof F & string>(
  fields: F,
  texts: Readonly<Record<Name, FieldTexts>>,
): FieldTable<Name> {
  return { fields, texts };
}

export function wordsOf(choices: Choices, value: string): string {
  return choices.find(([one]) => one === value)?.[1] ?? value;
}

export interface Control extends FieldTexts {
  id: string;
  name: string;
  schema: JsonSchema;
  /** Only lists have several values. */
  values: readonly string[];
  mistakes: readonly string[];
}

export function controlHtml(control: Control): Html {
  const { schema, choices, rows } = control;
  if (schema.type === 'boolean' && !choices) return checkbox(control);
  if (choices)
    return schema.type === 'array' ? checkboxes(control, choices) : labelled(control, select(control, choices));
  return labelled(control, rows === undefined ? oneLine(control) : area(control, rows));
}

function labelled(control: Control, input: Html): Html {
  return html`<div class="field">
    <label for="${control.id}">${control.label}</label>
    ${hintOf(control)} ${input} ${mistakesOf(control)}
  </div>`;
}

function hintOf({ id, hint }: Control): Html | false {
  return hint !== undefined && html`<p class="hint" id="${id}-hint">${hint}</p>`;
}

function mistakesOf({ id, mistakes }: Control): Html | false {
  return mistakes.length > 0 && html`<p class="mistake" id="${id}-mistake" role="alert">${mistakes.join(' ')}</p>`;
}

function described({ id, hint, mistakes }: Control): Html | false {
  const ids = [hint !== undefined && `${id}-hint`, mistakes.length > 0 && `${id}-mistake`].filter(Boolean);
  return ids.length > 0 && html`aria-describedby="${ids.join(' ')}"`;
}

function attributes(control: Control): Html {
  const { id, name, schema, mistakes } = control;
  return html`id="${id}" name="${schema.type === 'array' ? `${name}[]` : name}" ${described(control)}
  ${mistakes.length > 0 && html`aria-invalid="true"`}`;
}

function typing({ required, isCode, placeholder }: Control): Html {
  return html`${required && html`required`} ${isCode && html`class="code" spellcheck="false" autocapitalize="off"`}
  ${placeholder !== undefined && html`placeholder="${placeholder}"`}`;
}

function oneLine(control: Control): Html {
  const { schema, values } = control;
  const type = control.type ?? (schema.type === 'integer' ? 'number' : 'text');
  const isSecret = type === 'password';
  return html`<input
    ${attributes(control)}
    type="${type}"
    value="${
      // A page never contains a secret that a user typed.
      isSecret ? '' : values.join(' ')
    }"
    autocomplete="${isSecret ? 'new-password' : 'off'}"
    ${
      // A truncated secret would be stored as if it were whole.
      schema.maxLength !== undefined && !isSecret && html`maxlength="${schema.maxLength}"`
    }
    ${schema.type === 'array' && html`autocapitalize="off"`}
    ${typing(control)}
  />`;
}

const mostRows = 20;

function area(control: Control, least: number): Html {
  const text = control.values.join('\n');
  const rows = Math.min(mostRows, Math.max(least, text.split('\n').length));
  // A browser drops the first line break of a text area.
  return html`<textarea ${attributes(control)} rows="${rows}" ${typing(control)}>${`\n${text}`}</textarea>`;
}

function select(control: Control, choices: Choices): Html {
  const [chosen = ''] = control.values;
  return html`<select ${attributes(control)}>
    ${choices.map(
      ([value, words]) => html`<option value="${value}" ${value === chosen && html`selected`}>${words}</option>`,
    )}
  </select>`;
}

function checkbox(control: Control): Html {
  const { id, name, label, values } = control;
  return html`<div class="field">
    <input type="hidden" name="unchecked[]" value="${name}" />
    <label class="check" for="${id}">
      <input type="checkbox" ${attributes(control)} value="true" ${values[0] === 'true' && html`checked`} />
      <span>${label}</span>
    </label>
    ${hintOf(control)} ${mistakesOf(control)}
  </div>`;
}

const fewBoxes = 20;

function checkboxes(control: Control, choices: Choices): Html {
  const { id, name, label, schema, values } = control;
  const boxes = choices.map(
    ([value, words]) =>
      html`<label class="check" for="${id}-${value}">
        <input
          type="checkbox"
          id="${id}-${value}"
          name="${name}[]"
          value="${value}"
          ${values.includes(value) && html`checked`}
        />
        <span>${words}</span>
      </label>`,
  );
  return html`<fieldset class="field" ${described(control)}>
    <legend>${label}</legend>
    ${hintOf(control)}
    ${
      // A browser sends nothing for unchecked boxes. The blank entry empties the list.
      !schema.items?.enum && html`<input type="hidden" name="${name}[]" value="" />`
    }
    ${boxes.length > fewBoxes ? html`<div class="boxes">${boxes}</div>` : boxes} ${mistakesOf(control)}
  </fieldset>`;
}
