import type { Suite } from '../records/suite.ts';
import { most } from '../domain/bounds.ts';
import type { PageForm } from './forms.ts';
import { html, type Html } from './html.ts';

type Service = Suite['services'][number];

const fields = [
  'name',
  'image',
  'dependency_id',
  'command',
  'ready_port',
  'ready_command',
  'ready_timeout',
  'prepare',
  'prepare_inputs',
  'data',
] as const;

/** So many empty rows follow those that are there: more come when these are saved. */
const emptyVariables = 2;

/** What runs beside the builds of a suite, and one empty place for another. */
export function servicesGroup(form: PageForm, services: Suite['services'] = []): Html {
  const places = Math.min(most.servicesOfSuite, services.length + 1);
  const names = Array.from({ length: places }, (_, at) => [
    ...fields.map((field) => `services[${at}][${field}]`),
    ...variableNames(services[at], at).flat(),
  ]);
  const shown = services.map(({ name }) => name).join(', ');
  return form.group(
    ['services', ...names.flat()],
    `Services: ${shown === '' ? 'none' : shown}`,
    html`<p class="hint">
        What runs beside each build and is found by its name, such as a database. It is ready before the first step. A
        place in which nothing is typed does not count.
      </p>
      ${names.map((_, at) => serviceFields(form, services[at], at))}`,
  );
}

function variableNames(service: Service | undefined, at: number): string[][] {
  const rows = Math.min(most.variablesOfService, (service?.variables.length ?? 0) + emptyVariables);
  return Array.from({ length: rows }, (_, row) =>
    ['name', 'content', 'from'].map((field) => `services[${at}][variables][${row}][${field}]`),
  );
}

function serviceFields(form: PageForm, service: Service | undefined, at: number): Html {
  const of = (field: string): string => `services[${at}][${field}]`;
  const area = (field: 'command' | 'ready_command' | 'prepare', label: string, hint: string): Html =>
    form.area(of(field), label, { value: service?.[field], isCode: true, rows: 2, hint });
  return html`<fieldset class="field">
    <legend>Service ${at + 1}</legend>
    ${form.text(of('name'), 'Service name', {
      value: service?.name,
      maxlength: 63,
      hint: 'Steps find it by this name.',
      wrong: 'A name has small letters, digits and dashes, and begins with a letter.',
    })}
    ${form.text(of('image'), 'Service image', {
      value: service?.image,
      isCode: true,
      wrong: 'A service has an image, or the number of a dependency.',
    })}
    ${form.text(of('dependency_id'), 'Number of a dependency, in place of an image', {
      value: service?.dependency_id_str,
      isCode: true,
    })}
    ${area('command', 'Service command', 'Blank for what the image runs by itself.')}
    ${variableNames(service, at).map(([name = '', content = '', from = ''], row) => {
      const variable = service?.variables[row];
      return html`<div class="fields">
        ${form.text(name, 'Variable', { value: variable?.name, isCode: true })}
        ${form.text(content, 'Content', { value: variable?.content, isCode: true })}
        ${form.text(from, 'or from a variable of the suite', { value: variable?.from, isCode: true })}
      </div>`;
    })}
    ${form.text(of('ready_port'), 'Ready when this port takes connections', {
      value: service && service.ready_port > 0 ? String(service.ready_port) : '',
      type: 'number',
      hint: 'Blank for the first port that the image names.',
    })}
    ${area('ready_command', 'Ready when this exits with 0', 'Run inside the service.')}
    ${form.text(of('ready_timeout'), 'Within so many seconds', {
      value: service && String(service.ready_timeout),
      type: 'number',
      placeholder: '60',
    })}
    ${area('prepare', 'Prepare', 'Run in the repository once the service is ready, to fill it: migrations, fixtures.')}
    ${form.lines(of('prepare_inputs'), 'Files that decide what prepare makes', {
      value: service?.prepare_inputs.join('\n'),
      isCode: true,
      rows: 2,
      hint: 'One pattern a line.',
    })}
    ${form.lines(of('data'), 'Directories whose content is kept after prepare', {
      value: service?.data.join('\n'),
      isCode: true,
      rows: 2,
      hint: 'The next service with the same image, command, variables and files begins with it.',
      wrong: 'These are absolute paths without .., none inside another.',
    })}
  </fieldset>`;
}
