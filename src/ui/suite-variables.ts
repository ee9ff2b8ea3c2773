import type { EnvironmentVariable } from '../records/suite.ts';
import { html, type Html } from './html.ts';
import { pageForm, type PageForm } from './forms.ts';
import { orMissing, table } from './parts.ts';
import { deletionButton, deletionPage, type ProjectVisit } from './project-pages.ts';
import { settingsPage } from './settings.ts';
import type { PageRoute } from './site.ts';
import { suitePath } from './suite-rules.ts';

/**
 * The environment variables of a suite. A page contains a value only after the user asks for it. So a person behind the
 * user, or the browser's cache, shows only names.
 */

const of = '/projects/:project_id/suites/:suite_id/environment_variables';

export async function variablesPart(visit: ProjectVisit): Promise<Html> {
  const variables = await visit.api.get(of);
  const shown = visit.queryText('show');
  const form = pageForm(visit, 'add_variable');
  return html`<section id="variables" aria-labelledby="variables-title">
    <h2 id="variables-title">Variables</h2>
    <p class="aside">
      In the environment of the command, and of nothing else. They are stored encrypted; secret ones are masked in logs.
    </p>
    ${
      variables.length > 0 &&
      table(
        'List of variables',
        ['Name', 'Content', 'Secret', 'Actions'],
        variables.map((variable) => row(visit.path, variable, variable.id_str === shown)),
      )
    }
    ${form.wrap(
      html`${nameField(form)} ${form.area('content', 'Content', { rows: 2, isCode: true })} ${secretField(form, true)}`,
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

function row(path: string, { id_str: id, name, content, secret }: EnvironmentVariable, isShown: boolean): Html {
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
    <td class="number">
      <div class="actions end">
        <a href="${path}/variables/${id}" aria-describedby="variable-name-${id}">Change</a>
        ${deletionButton(`${path}/variables/${id}/delete`, `variable-name-${id}`)}
      </div>
    </td>
  </tr>`;
}

async function findVariable({ api, param }: ProjectVisit): Promise<EnvironmentVariable> {
  const variables = await api.get(of);
  return orMissing(variables.find(({ id_str: id }) => id === param('environment_variable_id')));
}

const change = settingsPage({
  path: '/suites/:suite_id/variables/:environment_variable_id',
  showsSecrets: true,
  async show(visit) {
    const { name, content, secret } = await findVariable(visit);
    const isShown = visit.queryText('show') !== '' || visit.refused?.typed.shown !== undefined;
    const form = pageForm(visit, 'save');
    const hint = isShown ? undefined : 'Left blank, it stays as it is.';
    const fields = html`${nameField(form, name)}
    ${form.area('content', 'Content', { value: isShown ? content : '', rows: 4, isCode: true, hint })}
    ${secretField(form, secret)} ${isShown && form.hidden('shown', '1')}`;
    return {
      title: name,
      main: html`<p class="aside"><a href="${suitePath(visit)}#variables">Back to the suite</a></p>
        <div class="title">
          <h1>Variable <code>${name}</code></h1>
          <div class="actions">${!isShown && showButton(visit.path)} ${deletionButton(`${visit.path}/delete`)}</div>
        </div>
        ${form.wrap(fields, { button: 'Save', isCard: true, label: 'Variable' })}`,
    };
  },
  actions: {
    save: {
      route: `PUT ${of}/:environment_variable_id`,
      // A value that was not shown is empty in the form and must not be overwritten.
      fields({ shown, content = '', ...rest }) {
        return shown === undefined && content === '' ? rest : { ...rest, content };
      },
      done: ({ warning }, visit) => ({
        goTo: `${suitePath(visit)}#variables`,
        notice: warning === undefined ? 'saved' : 'masks_words',
      }),
    },
  },
});

function showButton(path: string): Html {
  return html`<form method="get" action="${path}" class="inline">
    <input type="hidden" name="show" value="1" />
    <button>Show</button>
  </form>`;
}

const deletion = deletionPage({
  path: '/suites/:suite_id/variables/:environment_variable_id/delete',
  route: `DELETE ${of}/:environment_variable_id`,
  async what(visit) {
    const { name } = await findVariable(visit);
    return {
      title: `Delete ${name}?`,
      goes: html`<p>
        The variable <strong>${name}</strong> goes, with what it holds. Builds that begin from now on do not have it.
      </p>`,
    };
  },
  back: (visit) => `${suitePath(visit)}#variables`,
});

export const routes: PageRoute[] = [...change, ...deletion];
