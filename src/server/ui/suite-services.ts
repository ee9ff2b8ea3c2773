import { most } from '../../shared/domain/bounds.ts';
import { serviceFields, variableOfService } from '../../shared/records/service.ts';
import type { Suite } from '../../shared/records/suite.ts';
import { fieldTable } from './controls.ts';
import type { Fields } from './forms.ts';
import { html, type Html } from './html.ts';

type Service = Suite['services'][number];

const serviceForm = fieldTable(serviceFields, {
  name: {
    label: 'Service name',
    required: false,
    placeholder: 'redis',
    hint: 'Steps find it by this name.',
    wrong: 'A name has small letters, digits and dashes, and begins with a letter.',
  },
  image: {
    label: 'Service image',
    isCode: true,
    placeholder: 'docker.io/library/redis:8',
    hint: 'Or a dependency, below.',
    wrong: 'A service has an image, or the number of a dependency.',
  },
  command: { label: 'Service command', isCode: true, rows: 2, hint: 'Blank for what the image runs by itself.' },
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
    hint: 'The next service with the same image, command, variables and files begins with it.',
    wrong: 'These are absolute paths without .., none inside another.',
  },
  dependency_id: { label: 'Number of a dependency, in place of an image', isCode: true },
});

const variableForm = fieldTable(variableOfService, {
  name: { label: 'Variable', required: false, isCode: true },
  content: { label: 'Content', isCode: true },
  from: { label: 'or from the suite’s', isCode: true },
});

/** Empty rows for new variables. Each save adds more. */
const emptyVariables = 2;

export function servicesGroup(form: Fields<'services'>, services: Suite['services'] = []): Html {
  const places = Math.min(most.servicesOfSuite, services.length + 1);
  const shown = services.map(({ name }) => name).join(', ');
  return form.group(
    ['services'],
    `Services: ${shown === '' ? 'none' : shown}`,
    html`<p class="hint">
        What runs beside each build and is found by its name, such as a database. It is ready before the first step. A
        place in which nothing is typed does not count.
      </p>
      ${Array.from({ length: places }, (_, at) => serviceParts(form, at, services[at]))}`,
  );
}

function serviceParts(form: Fields<'services'>, at: number, service?: Service): Html {
  const inside = form.inside('services', at, serviceForm, service);
  const rows = Math.min(most.variablesOfService, (service?.variables.length ?? 0) + emptyVariables);
  const port = service?.ready_port === 0 ? { value: '' } : {};
  return inside.part(
    service ? `${service.name}: ${service.image || 'a dependency'}` : 'Another service',
    html`<div class="columns">${inside.fields('name', 'image')}</div>
      ${inside.field('command')}
      <fieldset class="field">
        <legend>Variables of the service</legend>
        ${Array.from({ length: rows }, (__, row) => {
          const variable = inside.inside('variables', row, variableForm, service?.variables[row]);
          return html`<div class="columns">${variable.fields()}</div>`;
        })}
      </fieldset>
      <div class="columns">${inside.field('ready_port', port)} ${inside.field('ready_timeout')}</div>
      ${inside.fields('ready_command', 'prepare')}
      <div class="columns">${inside.fields('prepare_inputs', 'data')}</div>
      ${inside.field('dependency_id')}`,
  );
}
