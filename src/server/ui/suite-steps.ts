import { most } from '../../shared/domain/bounds.ts';
import { stepFields, type Suite } from '../../shared/records/suite.ts';
import { fieldTable } from './controls.ts';
import type { Fields } from './forms.ts';
import { html, type Html } from './html.ts';
import { counted } from './parts.ts';

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

/** Empty rows for new steps. Each save adds more. */
const emptyRows = 3;

export function stepsGroup(form: Fields<'steps'>, steps: Suite['steps'] = []): Html {
  const rows = Array.from({ length: Math.min(most.stepsOfSuite, steps.length + emptyRows) }, (_, at) =>
    form.inside('steps', at, stepForm, steps[at]),
  );
  return form.group(
    ['steps'],
    `Steps: ${steps.length === 0 ? 'none' : counted(steps.length, 'step')}`,
    html`<p class="hint">
        In place of the command: they run one after the other, each in a shell of its own. A row without a name and a
        command does not count.
      </p>
      ${rows.map(
        (row, at) =>
          html`<fieldset class="part">
            <legend>Step ${at + 1}</legend>
            <div class="columns">${row.fields('name', 'when')}</div>
            ${row.field('command')}
          </fieldset>`,
      )}`,
  );
}
