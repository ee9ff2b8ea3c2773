import { most } from '../../shared/domain/bounds.ts';
import { parameterFields } from '../../shared/records/parameter.ts';
import { projectFields } from '../../shared/records/project.ts';
import { fieldTable } from './controls.ts';
import { recordForm, type Fields } from './forms.ts';
import { html, type Html } from './html.ts';
import { empty, table } from './parts.ts';
import type { ProjectVisit } from './project-pages.ts';
import { settingsPage } from './settings.ts';
import type { PageRoute } from './site.ts';
import { editable } from './suite-steps.ts';

const listForm = fieldTable(projectFields, { parameters: { label: 'Parameters' } });

const parameterForm = fieldTable(parameterFields, {
  name: {
    label: 'Name of the variable',
    required: false,
    isCode: true,
    wrong: 'A name has letters, digits and underscores, does not begin with a digit, and is not the name of a secret.',
  },
  type: {
    label: 'Type',
    choices: [
      ['string', 'Text'],
      ['number', 'Number'],
      ['boolean', 'Yes or no'],
      ['choice', 'One of the options'],
    ],
  },
  default: { label: 'Default', hint: 'For yes or no: true or false.', wrong: 'The default does not fit the type.' },
  required: {
    label: 'Needs a value',
    choices: [
      ['', 'No'],
      ['true', 'Yes'],
    ],
  },
  options: {
    label: 'Options',
    rows: 2,
    hint: 'One on each line, only for the type with options.',
    wrong: 'Only the type with options has options, and it needs at least one.',
  },
  description: { label: 'Description', rows: 2, hint: 'Shown where the value is asked for.' },
});

/** Empty rows for new parameters, without scripts. Each save adds more. */
const emptyRows = 2;

function rowsOf(form: Fields<'parameters'>): Html {
  const count = Math.min(most.parameters, form.count('parameters') + emptyRows);
  const rows = Array.from({ length: count }, (_, at) => form.inside('parameters', at, parameterForm));
  return editable(
    { add: 'Add parameter', what: 'parameter', most: most.parameters, least: 1 },
    rows.map(
      (row, at) =>
        html`<fieldset class="part" data-row>
          <legend>Parameter <span data-number>${at + 1}</span></legend>
          <div class="columns">${row.fields('name', 'type')}</div>
          <div class="columns">${row.fields('default', 'required')}</div>
          ${row.fields('options', 'description')}
        </fieldset>`,
    ),
  );
}

function listOf({ project }: ProjectVisit): Html {
  const rows = project.parameters.map(
    ({ name, type, default: value, description }) =>
      html`<tr>
        <td><code>${name}</code></td>
        <td>${type}</td>
        <td>${value || '–'}</td>
        <td>${description}</td>
      </tr>`,
  );
  const none = empty('No parameters', 'Before a build, the project asks only for a branch, tag or commit.');
  return table('Parameters', ['Name', 'Type', 'Default', 'Description'], rows, { none });
}

export const routes: PageRoute[] = settingsPage({
  path: '/parameters',
  async show(visit) {
    const { project, projectPath } = visit;
    const form = recordForm(visit, 'save', listForm, project);
    return {
      title: 'Parameters',
      main: html`<h1>Parameters</h1>
        <p class="aside">
          Variables that <a href="${projectPath}/run">Run</a> asks for. They are no secrets. Triggered builds take the
          defaults. A row in which nothing is typed does not count.
        </p>
        ${project.owned ? form.wrap(rowsOf(form), { button: 'Save', isCard: true, label: 'Parameters' }) : listOf(visit)}`,
    };
  },
  actions: { save: { route: 'PUT /projects/:project_id', done: 'saved' } },
});
