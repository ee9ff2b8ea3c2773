import type { Suite } from '../records/suite.ts';
import type { FormVisit, PageForm } from './forms.ts';
import { html, type Html } from './html.ts';

/** A suite, for a form that asks for a build. */
export type ChoosableSuite = Pick<Suite, 'id_str' | 'name'>;

/** Lets a person choose some of the suites for a build: those that are checked, or all where none is. */
export function suiteChoice(form: PageForm, suites: readonly ChoosableSuite[], { refused }: FormVisit): Html | false {
  if (suites.length < 2) return false;
  const choices = suites.map(({ id_str: id, name }) => [id, name] as const);
  return html`<details class="some-suites" ${refused !== undefined && html`open`}>
    <summary>Some suites only</summary>
    ${form.checks('suites', 'Suites to run, if their rules allow it', choices, [])}
  </details>`;
}
