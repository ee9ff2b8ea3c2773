import type { EnvironmentVariable, WrittenVariable } from '../../shared/records/suite.ts';
import { html, type Html } from './html.ts';
import { pageForm, type PageForm } from './forms.ts';
import { table } from './parts.ts';
import { deletionButton, deletionPage, type ProjectVisit } from './project-pages.ts';
import type { PageVisit } from './pages.ts';
import { settingsPage, settingsPath } from './settings.ts';
import type { PageRoute } from './site.ts';

/** A page contains a value only after the user asks for it, so neither onlookers nor the browser's cache get it. */

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

export const suiteVariables = (visit: ProjectVisit): Promise<Html> => variablesPart(visit, ofSuite);
export const projectVariables = (visit: ProjectVisit): Promise<Html> => variablesPart(visit, ofProject);

async function variablesPart(visit: ProjectVisit, { list, reach }: Owner): Promise<Html> {
  const variables = await visit.api.get(list);
  const shown = visit.queryText('show');
  const form = pageForm(visit, 'add_variable');
  return html`<section id="variables" aria-labelledby="variables-title">
    <h2 id="variables-title">Variables</h2>
    <p class="aside">
      ${reach} They are stored encrypted; secret ones are masked in logs. Builds of forks get none.
      ${!visit.project.owned && 'Variables that are limited to branches and tags are shown only to the owner.'}
    </p>
    ${
      variables.length > 0 &&
      table(
        'List of variables',
        ['Name', 'Content', 'Secret', 'Refs', 'Actions'],
        variables.map((variable) => row(visit.path, variable, variable.id_str === shown)),
      )
    }
    ${form.wrap(
      html`${nameField(form)} ${form.area('content', 'Content', { rows: 2, isCode: true })} ${secretField(form, true)}
      ${visit.project.owned && refsField(form)}`,
      { button: 'Add variable', kind: 'plain', isCard: true, label: 'New variable' },
    )}
  </section>`;
}

function nameField(form: PageForm, value?: string): Html {
  return form.text('name', 'Name', {
    value,
    required: true,
    isCode: true,
    maxlength: 255,
    wrong: 'A name has letters, digits and underscores, and does not begin with a digit.',
  });
}

function secretField(form: PageForm, checked: boolean): Html {
  return form.check('secret', 'Secret', { checked, hint: 'Masked wherever a log would show it.' });
}

/** Only the owner limits a variable. */
function refsField(form: PageForm, refs: readonly string[] = []): Html {
  return form.lines('refs', 'Refs', {
    value: refs.join('\n'),
    rows: 2,
    isCode: true,
    hint: html`Only builds of these branches and tags have it, one on each line, such as <code>main</code> or
      <code>refs/tags/v*</code>. Left blank, all builds have it.`,
    wrong: 'Refs are patterns of branches, or begin with refs/heads/ or refs/tags/. At most 20.',
  });
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
    <td class="number">
      <div class="actions end">
        <a href="${path}/variables/${id}" aria-describedby="variable-name-${id}">Change</a>
        ${deletionButton(`${path}/variables/${id}/delete`, `variable-name-${id}`)}
      </div>
    </td>
  </tr>`;
}

/** Warns if masking the value would hide ordinary words. */
function after(notice: 'added' | 'saved', goTo: (visit: PageVisit) => string) {
  return ({ warning }: WrittenVariable, visit: PageVisit) => ({
    goTo: goTo(visit),
    notice: warning === undefined ? notice : ('masks_words' as const),
  });
}

const added = after('added', ({ path }) => `${path}#variables`);
export const addSuiteVariable = { route: `POST ${ofSuite.list}`, done: added } as const;
export const addProjectVariable = { route: `POST ${ofProject.list}`, done: added } as const;

function showButton(path: string): Html {
  return html`<form method="get" action="${path}" class="inline">
    <input type="hidden" name="show" value="1" />
    <button>Show</button>
  </form>`;
}

function variablePages({ list, page, back: backLabel }: Owner): PageRoute[] {
  const one = `${list}/:environment_variable_id` as const;
  const back = (visit: PageVisit): string =>
    `${settingsPath(visit)}${page.replace(':suite_id', () => visit.param('suite_id'))}#variables`;
  const change = settingsPage({
    path: `${page}/variables/:environment_variable_id`,
    showsSecrets: true,
    async show(visit) {
      const { name, content, secret, refs } = await visit.api.get(one);
      const isShown = visit.queryText('show') !== '' || visit.refused?.typed.shown !== undefined;
      const form = pageForm(visit, 'save');
      const hint = isShown ? undefined : 'Left blank, it stays as it is.';
      const fields = html`${nameField(form, name)}
      ${form.area('content', 'Content', { value: isShown ? content : '', rows: 4, isCode: true, hint })}
      ${secretField(form, secret)} ${visit.project.owned && refsField(form, refs)}
      ${isShown && form.hidden('shown', '1')}`;
      return {
        title: name,
        main: html`<p class="aside"><a href="${back(visit)}">${backLabel}</a></p>
          <div class="title">
            <h1>Variable <code>${name}</code></h1>
            <div class="actions">${!isShown && showButton(visit.path)} ${deletionButton(`${visit.path}/delete`)}</div>
          </div>
          ${form.wrap(fields, { button: 'Save', isCard: true, label: 'Variable' })}`,
      };
    },
    actions: {
      save: {
        route: `PUT ${one}`,
        // A value that was not shown is empty in the form and must not be overwritten.
        fields({ shown, content = '', ...rest }) {
          return shown === undefined && content === '' ? rest : { ...rest, content };
        },
        done: after('saved', back),
      },
    },
  });
  const deletion = deletionPage({
    path: `${page}/variables/:environment_variable_id/delete`,
    route: `DELETE ${one}`,
    async what(visit) {
      const { name } = await visit.api.get(one);
      return {
        title: `Delete ${name}?`,
        goes: html`<p>
          The variable <strong>${name}</strong> goes, with what it holds. Builds that begin from now on do not have it.
        </p>`,
      };
    },
    back,
  });
  return [...change, ...deletion];
}

export const routes: PageRoute[] = [...variablePages(ofSuite), ...variablePages(ofProject)];
