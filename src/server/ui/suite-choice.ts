import { most } from '../../shared/domain/bounds.ts';
import { askedFields } from '../../shared/records/build-request.ts';
import { groupOf, type RawGroup } from '../../shared/records/raw.ts';
import type { Suite } from '../../shared/records/suite.ts';
import { fieldTable } from './controls.ts';
import type { Fields, FormVisit } from './forms.ts';
import { html, type Html } from './html.ts';

export type ChoosableSuite = Pick<Suite, 'id_str' | 'name'>;

export const runForm = fieldTable(askedFields, {
  commit_ref: {
    label: 'Branch, tag or commit',
    isCode: true,
    wrong: 'This cannot be the name of a branch, a tag or a commit.',
  },
  suites: { label: 'Suites to run, if their rules allow it' },
  variables: {
    label: 'Variables of this build',
    rows: 3,
    isCode: true,
    hint: html`One on each line, as <code>NAME=value</code>. They are not secret: all users of the project see them.`,
    wrong: `Each line is NAME=value, at most ${most.variablesOfRequest}. Names have letters, digits and underscores; none may be that of a secret variable.`,
  },
});

export function runChoices(
  form: Fields<'suites' | 'variables'>,
  suites: readonly ChoosableSuite[],
  { refused }: FormVisit,
): Html {
  const isOpen = refused !== undefined;
  return html`${suitesPart(form, suites, isOpen)}
    <details class="some-suites" ${isOpen && html`open`}>
      <summary>Variables</summary>
      ${form.field('variables')}
    </details>`;
}

export function suitesPart(form: Fields<'suites'>, suites: readonly ChoosableSuite[], isOpen: boolean): Html | false {
  const choices = suites.map(({ id_str: id, name }) => [id, name] as const);
  return (
    choices.length > 1 &&
    html`<details class="some-suites" ${isOpen && html`open`}>
      <summary>Some suites only</summary>
      ${form.field('suites', { choices })}
    </details>`
  );
}

/** Reads the variables from the lines of the text area. The route refuses wrong lines. */
export function askedFrom({ variables: typed, ...form }: RawGroup): RawGroup {
  if (typeof typed !== 'string') return form;
  const lines = typed.split('\n').filter((line) => line.trim() !== '');
  if (lines.length === 0) return { ...form, variables: '' };
  const pairs = lines.map((line) => line.split(/=(.*)/s, 2));
  const names = new Set(pairs.map(([name = '']) => name.trim()));
  if (names.size < lines.length || pairs.some(([, value]) => value === undefined)) return { ...form, variables: typed };
  const variables = groupOf(Object.fromEntries(pairs.map(([name = '', value = '']) => [name.trim(), value])));
  return { ...form, variables };
}
