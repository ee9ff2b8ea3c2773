import type { Suite } from '../../shared/records/suite.ts';
import { most } from '../../shared/domain/bounds.ts';
import type { PageForm } from './forms.ts';
import { html, type Html } from './html.ts';

type Service = Suite['services'][number];

/** Saving brings more empty rows. */
const emptyVariables = 2;

export function servicesGroup(form: PageForm, services: Suite['services'] = []): Html {
  const places = Math.min(most.servicesOfSuite, services.length + 1);
  const parts = Array.from({ length: places }, (_, at) => serviceParts(form, services[at], at));
  const shown = services.map(({ name }) => name).join(', ');
  return form.group(
    ['services', ...parts.flatMap(({ names }) => names)],
    `Services: ${shown === '' ? 'none' : shown}`,
    html`<p class="hint">
        What runs beside each build and is found by its name, such as a database. It is ready before the first step. A
        place in which nothing is typed does not count.
      </p>
      ${parts.map(({ names, fields }, at) => {
        const service = services[at];
        return form.part(
          names,
          service ? `${service.name}: ${service.image || 'a dependency'}` : 'Another service',
          fields,
        );
      })}`,
  );
}

function serviceParts(form: PageForm, service: Service | undefined, at: number): { names: string[]; fields: Html } {
  const names: string[] = [];
  const of = (field: string): string => {
    const name = `services[${at}][${field}]`;
    names.push(name);
    return name;
  };
  const area = (field: 'command' | 'ready_command' | 'prepare', label: string, hint: string): Html =>
    form.area(of(field), label, { value: service?.[field], isCode: true, rows: 2, hint });
  const rows = Math.min(most.variablesOfService, (service?.variables.length ?? 0) + emptyVariables);
  const fields = html`<div class="columns">
      ${form.text(of('name'), 'Service name', {
        value: service?.name,
        maxlength: 63,
        placeholder: 'redis',
        hint: 'Steps find it by this name.',
        wrong: 'A name has small letters, digits and dashes, and begins with a letter.',
      })}
      ${form.text(of('image'), 'Service image', {
        value: service?.image,
        isCode: true,
        placeholder: 'docker.io/library/redis:8',
        hint: 'Or a dependency, below.',
        wrong: 'A service has an image, or the number of a dependency.',
      })}
    </div>
    ${area('command', 'Service command', 'Blank for what the image runs by itself.')}
    <fieldset class="field">
      <legend>Variables of the service</legend>
      ${Array.from({ length: rows }, (_, row) => {
        const variable = service?.variables[row];
        const text = (field: 'name' | 'content' | 'from', label: string): Html => {
          const name = of(`variables][${row}][${field}`);
          return form.text(name, label, { value: variable?.[field], isCode: true });
        };
        return html`<div class="columns">
          ${text('name', 'Variable')} ${text('content', 'Content')} ${text('from', 'or from the suite’s')}
        </div>`;
      })}
    </fieldset>
    <div class="columns">
      ${form.text(of('ready_port'), 'Ready when this port takes connections', {
        value: service && service.ready_port > 0 ? String(service.ready_port) : '',
        type: 'number',
        hint: 'Blank for the first port that the image names.',
      })}
      ${form.text(of('ready_timeout'), 'Within so many seconds', {
        value: service && String(service.ready_timeout),
        type: 'number',
        placeholder: '60',
        hint: 'Otherwise the build cannot be run.',
      })}
    </div>
    ${area('ready_command', 'Ready when this exits with 0', 'Run inside the service.')}
    ${area('prepare', 'Prepare', 'Run in the repository once the service is ready, to fill it: migrations, fixtures.')}
    <div class="columns">
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
    </div>
    ${form.text(of('dependency_id'), 'Number of a dependency, in place of an image', {
      value: service?.dependency_id_str,
      isCode: true,
    })}`;
  return { names, fields };
}
