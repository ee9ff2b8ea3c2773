import type { EnvironmentVariable } from '../../shared/records/suite.ts';
import { hidden, pageForm, recordForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { manages, organisationsPath, shownOrganisation, type Shown } from './organisation-page.ts';
import { page, type PageVisit } from './pages.ts';
import { orMissing, section, table } from './parts.ts';
import { backLink, deletionButton, rowActions } from './resource-pages.ts';
import type { PageRoute } from './site.ts';
import { variableForm } from './variables.ts';

const list = '/organisations/:organisation_id/environment_variables';
const one = `${list}/:environment_variable_id` as const;
const path = `${organisationsPath}/:organisation_name/variables/:environment_variable_id`;

export async function variablesPart(shown: Shown): Promise<Html> {
  const { visit, of } = shown;
  const variables = await visit.api.get(list, { params: of });
  const mayChange = manages(shown);
  const form = recordForm(visit, 'add_variable', variableForm, undefined, of);
  const rows = variables.map(
    ({ id_str: id, name, secret, refs }) =>
      html`<tr>
        <td id="variable-${id}"><code>${name}</code></td>
        <td>${secret ? 'yes' : 'no'}</td>
        <td>${refs.length === 0 ? 'all' : refs.map((ref) => html`<code>${ref}</code> `)}</td>
        <td class="number">${mayChange && rowActions(`${visit.path}/variables/${id}`, `variable-${id}`)}</td>
      </tr>`,
  );
  return section(
    'variables',
    'Variables',
    html`<p class="aside">
        In the environment of every build of its projects. A project&rsquo;s variable of the same name replaces it.
      </p>
      ${rows.length > 0 && table('List of variables', ['Name', 'Secret', 'Refs', 'Actions'], rows)}
      ${mayChange && form.wrap(form.fields(), { button: 'Add variable', isCard: true, label: 'New variable' })}`,
    { isTarget: true },
  );
}

export const addVariable = {
  route: `POST ${list}`,
  done: (_: unknown, { path: of }: PageVisit) => ({ goTo: `${of}#variables`, notice: 'added' as const }),
} as const;

interface ShownVariable extends Shown {
  variable: EnvironmentVariable;
  back: string;
}

async function shownVariable(visit: PageVisit): Promise<ShownVariable> {
  const shown = await shownOrganisation(visit);
  // Who only reads has no page for changes.
  orMissing(manages(shown) || undefined);
  const variable = await visit.api.get(one, { params: shown.of });
  return { ...shown, variable, back: backTo(visit) };
}

function backTo({ param }: PageVisit): string {
  return `${organisationsPath}/${param('organisation_name')}#variables`;
}

/** The page has the value only once it was asked for. */
const isShown = (visit: PageVisit): boolean =>
  visit.queryText('show') !== '' || visit.refused?.typed.shown !== undefined;

const change = page({
  path,
  showsSecrets: true,
  async show(visit) {
    const { variable, of, organisation, back } = await shownVariable(visit);
    const form = recordForm(visit, 'save', variableForm, variable, of);
    const unseen = isShown(visit) ? {} : { value: '', hint: 'Left blank, it stays as it is.' };
    const show = html`<form method="get" action="${visit.path}" class="inline">
      ${hidden('show', '1')}
      <button>Show</button>
    </form>`;
    return {
      title: variable.name,
      main: html`${backLink(back, organisation.name)}
        <div class="title">
          <h1>Variable <code>${variable.name}</code></h1>
          ${!isShown(visit) && show} ${deletionButton(`${visit.path}/delete`)}
        </div>
        ${form.wrap(
          html`${form.field('name')} ${form.field('content', { rows: 4, ...unseen })} ${form.fields('secret', 'refs')}
          ${isShown(visit) && hidden('shown', '1')}`,
          { button: 'Save', isCard: true, label: 'Variable' },
        )}`,
    };
  },
  actions: {
    save: {
      route: 'PUT /organisations/:organisation_id/environment_variables/:environment_variable_id',
      // A value that was not shown is an empty field and must not be overwritten.
      fields: ({ shown, content = '', ...rest }) =>
        shown === undefined && content === '' ? rest : { ...rest, content },
      done: ({ warning }, visit) => ({
        goTo: backTo(visit),
        notice: warning === undefined ? 'saved' : 'masks_words',
      }),
    },
  },
});

const deletion = page({
  path: `${path}/delete`,
  async show(visit) {
    const { variable, of, back } = await shownVariable(visit);
    return {
      title: `Delete ${variable.name}?`,
      main: html`<h1>Delete ${variable.name}?</h1>
        <div class="card confirm">
          <p>
            The variable <strong>${variable.name}</strong> goes, with what it holds. Builds that begin from now on do
            not have it.
          </p>
          <p>This cannot be undone.</p>
          <div class="row choice">
            ${pageForm(visit, 'delete', of).wrap(false, { button: 'Delete', kind: 'danger' })}
            <a class="button" href="${back}">Keep it</a>
          </div>
        </div>`,
    };
  },
  actions: {
    delete: {
      route: 'DELETE /organisations/:organisation_id/environment_variables/:environment_variable_id',
      done: (_, visit) => ({ goTo: backTo(visit), notice: 'deleted' }),
    },
  },
});

export const routes: PageRoute[] = [...change, ...deletion];
