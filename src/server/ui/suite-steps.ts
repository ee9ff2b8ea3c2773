import { most } from '../../shared/domain/bounds.ts';
import { stepFields } from '../../shared/records/suite.ts';
import { fieldTable } from './controls.ts';
import type { Fields } from './forms.ts';
import { html, type Html } from './html.ts';

const stepForm = fieldTable(stepFields, {
  name: { label: 'Step name', required: false },
  when: {
    label: 'Runs',
    choices: [
      ['passed', 'if no step before it failed'],
      ['failed', 'if a step before it failed'],
      ['always', 'in both cases'],
    ],
  },
  command: { label: 'Step command', required: false, isCode: true, rows: 2 },
});

/** Empty rows for new steps, without scripts. Each save adds more. */
const emptyRows = 3;

export function stepsPart(form: Fields<'steps'>): Html {
  const rows = Array.from({ length: Math.min(most.stepsOfSuite, form.count('steps') + emptyRows) }, (_, at) =>
    form.inside('steps', at, stepForm),
  );
  return html`<p class="hint">
      They run one after the other, each in a shell of its own. A row without a name and a command does not count.
    </p>
    ${editable(
      { add: 'Add step', what: 'step', most: most.stepsOfSuite, least: 1 },
      rows.map(
        (row, at) =>
          html`<fieldset class="part" data-row>
            <legend>Step <span data-number>${at + 1}</span></legend>
            <div class="columns">${row.fields('name', 'when')}</div>
            ${row.field('command')}
          </fieldset>`,
      ),
    )}`;
}

interface Rows {
  /** The button that adds a row. */
  add: string;
  /** The word for a row, in the names of its buttons. */
  what: string;
  most: number;
  least?: number;
}

/** Rows that `browser/rows.ts` adds, moves and removes. */
export function editable({ add, what, most: limit, least = 0 }: Rows, rows: readonly Html[]): Html {
  return html`<div data-rows="${what}" data-add="${add}" data-most="${limit}" data-least="${least}">${rows}</div>`;
}
