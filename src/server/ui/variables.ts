import { variableFields, type EnvironmentVariable, type WrittenVariable } from '../../shared/records/suite.ts';
import { fieldTable } from './controls.ts';
import { hidden } from './forms.ts';
import { html, type Html } from './html.ts';
import type { OpenPageVisit } from './pages.ts';
import { section, table } from './parts.ts';
import type { ProjectVisit } from './project-pages.ts';
import { resource, rowActions } from './resource-pages.ts';
import { refsTexts } from './settings-deploys.ts';
import { settingsPage, settingsPath } from './settings.ts';
import type { PageRoute } from './site.ts';

/** A page contains a value only after the user requests it. So onlookers and the browser's cache do not get it. */

const ofSuite = {
  list: '/projects/:project_id/suites/:suite_id/environment_variables',
  page: '/suites/:suite_id',
  back: 'Back to the suite',
  reach: 'In the environment of the command, and of nothing else.',
} as const;
const ofProject = {
  list: '/projects/:project_id/environment_variables',
  page: '',
  back: 'Back to the project',
  reach: 'In the environment of every suite’s command. A variable of a suite with the same name wins.',
} as const;
type Owner = typeof ofSuite | typeof ofProject;

export const variableForm = fieldTable(variableFields, {
  name: {
    label: 'Name',
    isCode: true,
    wrong: 'A name has letters, digits and underscores, and does not start with a digit.',
  },
  content: { label: 'Content', rows: 2, isCode: true },
  secret: { label: 'Secret', hint: 'Masked wherever a log would show it.' },
  refs: {
    ...refsTexts,
    hint: html`Only builds of these branches and tags have it, one on each line, such as <code>main</code> or
      <code>refs/tags/v*</code>. Left blank, all builds have it.`,
  },
});

async function variablesPart(visit: ProjectVisit, { list, reach }: Owner, newForm: Html): Promise<Html> {
  const variables = await visit.api.get(list);
  const shown = visit.queryText('show');
  const rows = variables.map((variable) => row(visit.path, variable, variable.id_str === shown));
  return section(
    'variables',
    'Variables',
    html`<p class="aside">
        ${reach} They are stored encrypted; secret ones are masked in logs. Builds of forks get none.
        ${!visit.project.owned && 'Variables that are limited to branches and tags are shown only to the owner.'}
      </p>
      ${rows.length > 0 && table('List of variables', ['Name', 'Content', 'Secret', 'Refs', 'Actions'], rows)}
      ${newForm}`,
    { isTarget: true },
  );
}

function row(path: string, { id_str: id, name, content, secret, refs }: EnvironmentVariable, isShown: boolean): Html {
  return html`<tr id="variable-${id}">
    <td><code id="variable-name-${id}">${name}</code></td>
    <td>
      ${
        isShown
          ? html`<code class="content">${content === '' ? '(empty)' : content}</code>
              <a href="${path}#variable-${id}" aria-describedby="variable-name-${id}">Hide</a>`
          : html`<form method="get" action="${path}#variable-${id}" class="inline">
              <input type="hidden" name="show" value="${id}" />
              <span aria-hidden="true">&bull;&bull;&bull;&bull;&bull;&bull;</span>
              <button class="quiet" aria-describedby="variable-name-${id}">Show</button>
            </form>`
      }
    </td>
    <td>${secret ? 'yes' : 'no'}</td>
    <td>${refs.length === 0 ? 'all' : refs.map((ref) => html`<code>${ref}</code> `)}</td>
    <td class="number">${rowActions(`${path}/variables/${id}`, `variable-name-${id}`)}</td>
  </tr>`;
}

/** Warns if masking the value would hide ordinary words. */
function after(notice: 'added' | 'saved', goTo: (visit: OpenPageVisit) => string) {
  return ({ warning }: WrittenVariable, visit: OpenPageVisit) => ({
    goTo: goTo(visit),
    notice: warning === undefined ? notice : ('masks_words' as const),
  });
}

const added = after('added', ({ path }) => `${path}#variables`);
export const addSuiteVariable = { route: `POST ${ofSuite.list}`, done: added } as const;
export const addProjectVariable = { route: `POST ${ofProject.list}`, done: added } as const;

const isShown = (visit: OpenPageVisit): boolean =>
  visit.queryText('show') !== '' || visit.refused?.typed.shown !== undefined;

const unseen = { value: '', hint: 'Left blank, it stays as it is.' };

function pagesOf(owner: Owner) {
  const one = `${owner.list}/:environment_variable_id` as const;
  const back = (visit: OpenPageVisit): string =>
    `${settingsPath(visit)}${owner.page.replace(':suite_id', () => visit.param('suite_id'))}#variables`;
  const { newForm, routes } = resource({
    noun: 'variable',
    frame: settingsPage,
    path: `${owner.page}/variables/:environment_variable_id`,
    showsSecrets: true,
    read: (visit: ProjectVisit) => visit.api.get(one),
    name: ({ name }) => name,
    heading: ({ name }) => html`Variable <code>${name}</code>`,
    buttons: (_, visit) =>
      !isShown(visit) &&
      html`<form method="get" action="${visit.path}" class="inline">
        ${hidden('show', '1')}
        <button>Show</button>
      </form>`,
    all: owner.back,
    back,
    form: variableForm,
    creation: { action: 'add_variable', button: 'Add variable', kind: 'plain' },
    fields: (form, visit, variable) =>
      html`${form.field('name')} ${form.field('content', variable && { rows: 4, ...(!isShown(visit) && unseen) })}
      ${form.field('secret')}
      ${
        // Only the owner limits a variable.
        visit.project.owned && form.field('refs')
      }
      ${variable && isShown(visit) && hidden('shown', '1')}`,
    save: {
      route: `PUT ${one}`,
      // A value that was not shown is an empty field and must not be overwritten.
      fields: ({ shown, content = '', ...rest }) =>
        shown === undefined && content === '' ? rest : { ...rest, content },
      done: after('saved', back),
    },
    delete: `DELETE ${one}`,
    goes: ({ name }) =>
      html`<p>
        The variable <strong>${name}</strong> is deleted with its content. Builds that start from now on do not have it.
      </p>`,
  });
  return { routes, part: async (visit: ProjectVisit) => variablesPart(visit, owner, await newForm(visit)) };
}

const [suites, project] = [pagesOf(ofSuite), pagesOf(ofProject)];

export const suiteVariables = suites.part;
export const projectVariables = project.part;
export const routes: PageRoute[] = [...suites.routes, ...project.routes];
