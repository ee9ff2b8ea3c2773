import type { Suite } from '../../shared/records/suite.ts';
import { most } from '../../shared/domain/bounds.ts';
import type { PageForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { counted } from './parts.ts';

const whens = [
  ['passed', 'if no step before it failed'],
  ['failed', 'if a step before it failed'],
  ['always', 'in both cases'],
] as const;

/** Saving brings more empty rows. */
const emptyRows = 3;

export function stepsGroup(form: PageForm, steps: Suite['steps'] = []): Html {
  const rows = Math.min(most.stepsOfSuite, steps.length + emptyRows);
  const names = Array.from({ length: rows }, (_, at) =>
    ['name', 'command', 'when'].map((field) => `steps[${at}][${field}]`),
  );
  return form.group(
    ['steps', ...names.flat()],
    `Steps: ${steps.length === 0 ? 'none' : counted(steps.length, 'step')}`,
    html`<p class="hint">
        In place of the command: they run one after the other, each in a shell of its own. A row without a name and a
        command does not count.
      </p>
      ${names.map(([name = '', command = '', when = ''], at) => {
        const step = steps[at];
        return html`<fieldset class="part">
          <legend>Step ${at + 1}</legend>
          <div class="columns">
            ${form.text(name, 'Step name', { value: step?.name, maxlength: 255 })}
            ${form.select(when, 'Runs', whens, { value: step?.when })}
          </div>
          ${form.area(command, 'Step command', {
            value: step?.command,
            isCode: true,
            rows: Math.min(10, Math.max(2, (step?.command ?? '').split('\n').length)),
          })}
        </fieldset>`;
      })}`,
  );
}
