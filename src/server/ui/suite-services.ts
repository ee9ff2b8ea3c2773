import { most } from '../../shared/domain/bounds.ts';
import { serviceFields, variableOfService } from '../../shared/records/service.ts';
import { fieldTable, type Choices, type FieldTexts, type NamesIn } from './controls.ts';
import type { Fields } from './forms.ts';
import { html, type Html } from './html.ts';
import { editable } from './suite-steps.ts';

const serviceForm = fieldTable(serviceFields, {
  name: {
    label: 'Service name',
    required: false,
    placeholder: 'redis',
    hint: 'Steps find it by this name.',
    wrong: 'A name has small letters, digits and dashes, and starts with a letter.',
  },
  image: {
    label: 'Service image',
    isCode: true,
    placeholder: 'docker.io/library/redis:8',
    hint: 'Or a dependency, below.',
    wrong: 'A service has an image, or the number of a dependency.',
  },
  command: { label: 'Service command', isCode: true, rows: 2, hint: 'Leave blank to run the command of the image.' },
  variables: { label: 'Variables of the service' },
  ready_port: {
    label: 'Ready when this port takes connections',
    hint: 'Blank for the first port that the image names.',
  },
  ready_timeout: {
    label: 'Within so many seconds',
    placeholder: String(serviceFields.ready_timeout.fallback),
    hint: 'Otherwise the build cannot be run.',
  },
  ready_command: { label: 'Ready when this exits with 0', isCode: true, rows: 2, hint: 'Run inside the service.' },
  prepare: {
    label: 'Prepare',
    isCode: true,
    rows: 2,
    hint: 'Run in the repository once the service is ready, to fill it: migrations, fixtures.',
  },
  prepare_inputs: {
    label: 'Files that decide what prepare makes',
    isCode: true,
    rows: 2,
    hint: 'One pattern a line.',
  },
  data: {
    label: 'Directories whose content is kept after prepare',
    isCode: true,
    rows: 2,
    hint: 'The next service with the same image, command, variables and files starts with its data.',
    wrong: 'These are absolute paths without .., none inside another.',
  },
  dependency_id: { label: 'Number of a dependency, in place of an image', isCode: true },
});

const variableForm = fieldTable(variableOfService, {
  name: { label: 'Variable', required: false, isCode: true },
  content: { label: 'Content', isCode: true },
  from: { label: 'or from the suite’s', isCode: true },
});

/** Empty rows for new variables, without scripts. Each save adds more. */
const emptyVariables = 2;

export function servicesGroup(form: Fields<'services'>, dependencies: Choices | undefined): Html {
  const count = Math.min(most.servicesOfSuite, form.count('services'));
  const rows = Array.from({ length: Math.min(most.servicesOfSuite, count + 1) }, (_, at) =>
    serviceParts(form.inside('services', at, serviceForm), dependencies),
  );
  const names = Array.from({ length: count }, (_, at) => form.inside('services', at, serviceForm).shown('name'));
  const shown = names.filter((name) => name !== '').join(', ');
  return form.group(
    ['services'],
    `Services: ${shown === '' ? 'none' : shown}`,
    html`<p class="hint">
        What runs beside each build and is found by its name, such as a database. It is ready before the first step. A
        place in which nothing is typed does not count.
      </p>
      ${editable({ add: 'Add service', what: 'service', most: most.servicesOfSuite }, rows)}`,
  );
}

function serviceParts(service: Fields<NamesIn<typeof serviceForm>>, dependencies: Choices | undefined): Html {
  const [name, image, dependency] = [service.shown('name'), service.shown('image'), service.shown('dependency_id')];
  const variables = Math.min(most.variablesOfService, service.count('variables') + emptyVariables);
  const port = service.shown('ready_port') === '0' ? { value: '' } : {};
  return service.part(
    name === '' ? 'Another service' : `${name}: ${image || 'a dependency'}`,
    html`<div class="columns">${service.fields('name', 'image')}</div>
      ${service.field('dependency_id', dependencies && choiceOf(dependencies, dependency))} ${service.field('command')}
      <fieldset class="field">
        <legend>Variables of the service</legend>
        ${editable(
          { add: 'Another variable', what: 'variable', most: most.variablesOfService },
          Array.from(
            { length: variables },
            (_, row) =>
              html`<div class="columns" data-row>${service.inside('variables', row, variableForm).fields()}</div>`,
          ),
        )}
      </fieldset>
      <div class="columns">${service.field('ready_port', port)} ${service.field('ready_timeout')}</div>
      ${service.fields('ready_command', 'prepare')}
      <div class="columns">${service.fields('prepare_inputs', 'data')}</div>`,
  );
}

/** With more, the page would be mostly choices, and the field takes the number. */
const mostChoices = 200;

/** The chosen dependency may be one that is no longer shared. */
function choiceOf(dependencies: Choices, chosen: string): Partial<FieldTexts> {
  if (dependencies.length > mostChoices) return {};
  const isKnown = chosen === '' || dependencies.some(([id]) => id === chosen);
  const others: Choices = isKnown ? [] : [[chosen, `Dependency ${chosen}`]];
  return { label: 'Dependency in place of an image', choices: [['', 'None'], ...dependencies, ...others] };
}
