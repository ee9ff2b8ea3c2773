import type { Suite } from '../../shared/records/suite.ts';
import { groupOf, type RawGroup } from '../../shared/records/raw.ts';
import type { FormVisit, PageForm } from './forms.ts';
import { html, type Html } from './html.ts';

export type ChoosableSuite = Pick<Suite, 'id_str' | 'name'>;

export function runChoices(form: PageForm, suites: readonly ChoosableSuite[], visit: FormVisit): Html {
  return html`${suiteChoice(form, suites, visit)}
    <details class="some-suites" ${visit.refused !== undefined && html`open`}>
      <summary>Variables</summary>
      ${form.area('variables', 'Variables of this build', {
        rows: 3,
        isCode: true,
        hint: html`One on each line, as <code>NAME=value</code>. They are no secrets: everybody of the project sees
          them.`,
        wrong:
          'Each line is NAME=value, at most 50. Names have letters, digits and underscores; none may be that of a secret variable.',
      })}
    </details>`;
}

/** Each line of the area is a variable. The route refuses other lines. */
export function askedFrom({ variables: typed, ...form }: RawGroup): RawGroup {
  const lines = typeof typed === 'string' ? typed.split('\n').filter((line) => line.trim() !== '') : [];
  if (lines.length === 0) return form;
  const pairs = lines.map((line) => line.split(/=(.*)/s, 2));
  const names = new Set(pairs.map(([name = '']) => name.trim()));
  if (names.size < lines.length || pairs.some(([, value]) => value === undefined))
    return { ...form, variables: typed ?? '' };
  const variables = groupOf(Object.fromEntries(pairs.map(([name = '', value = '']) => [name.trim(), value])));
  return { ...form, variables };
}

function suiteChoice(form: PageForm, suites: readonly ChoosableSuite[], { refused }: FormVisit): Html | false {
  if (suites.length < 2) return false;
  const choices = suites.map(({ id_str: id, name }) => [id, name] as const);
  return html`<details class="some-suites" ${refused !== undefined && html`open`}>
    <summary>Some suites only</summary>
    ${form.checks('suites', 'Suites to run, if their rules allow it', choices, [])}
  </details>`;
}
