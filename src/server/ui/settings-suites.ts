import { longest } from '../../shared/domain/bounds.ts';
import { variantsOf } from '../../shared/domain/matrix.ts';
import type { Suite } from '../../shared/records/suite.ts';
import { recordForm } from './forms.ts';
import { suitesGraph } from './graph.ts';
import { html, type Html } from './html.ts';
import { beside, counted, empty, filterForm, section, table } from './parts.ts';
import { isOwned, type ProjectVisit } from './project-pages.ts';
import { resource } from './resource-pages.ts';
import { settingsPage, settingsPath } from './settings.ts';
import type { PageRoute } from './site.ts';
import { dependenciesPart, dependencyChoices } from './suite-dependencies.ts';
import { chosenRuns, suiteForm, suiteParts } from './suite-form.ts';
import { figuresPart } from './suite-figures.ts';
import { rulesPart } from './suite-rules.ts';
import { addSuiteVariable, suiteVariables } from './variables.ts';

const fewSuites = 20;

const list = settingsPage({
  path: '/suites',
  async show(visit) {
    const all = await visit.api.get('/projects/:project_id/suites');
    const filter = visit.queryText('filter').trim();
    const suites = all.filter(({ name }) => name.toLowerCase().includes(filter.toLowerCase()));
    const none = empty('No suites yet', 'A suite is a command that every commit is tried with, such as your tests.');
    const form = recordForm(visit, 'create', suiteForm);
    const dependencies = await dependencyChoices(visit);
    const parts = suiteParts(form, { all, mayBuildImages: visit.imageBuilds, dependencies });
    const newForm = form.wrap(parts, { button: 'Create suite', isCard: true, label: 'New suite' });
    const shown = { name: 'filter', label: 'Filter', value: filter, most: longest.name, isWhole: true };
    const rows = suites.map((suite) => row(suite, visit.path));
    return {
      title: 'Suites',
      main: html`<div class="title">
          <h1>Suites</h1>
          ${all.length > fewSuites && html`<a class="button" href="#new">New suite</a>`}
        </div>
        ${beside(
          html`${all.length > fewSuites && filterForm(visit.path, shown)} ${suitesGraph(all, visit.path)}
            ${table('Suites', ['Name', 'Command'], rows, { none })}
            <p id="none-fit" class="aside" ${suites.length > 0 && html`hidden`}>
              ${all.length > 0 && 'No suite has that in its name.'}
            </p>`,
          section('new', 'New suite', newForm, { isTarget: true }),
        )}`,
    };
  },
  actions: {
    create: {
      route: 'POST /projects/:project_id/suites',
      fields: chosenRuns,
      done: ({ id_str: id }, visit) => ({ goTo: `${visit.path}/${id}`, notice: 'created' }),
    },
  },
});

function row(suite: Suite, path: string): Html {
  const { id_str: id, name, description, command, steps } = suite;
  return html`<tr data-name="${name.toLowerCase()}">
    <td>
      <a href="${path}/${id}">${name}</a>
      ${description !== '' && html`<p class="aside brief">${description}</p>`} ${chipsOf(suite)}
    </td>
    <td>
      ${
        steps.length === 0
          ? html`<code class="brief">${command}</code>`
          : html`<span class="brief"
              >${counted(steps.length, 'step')}: ${steps.map((step) => step.name).join(', ')}</span
            >`
      }
    </td>
  </tr>`;
}

const namesOf = (some: readonly { name: string }[]): string => some.map(({ name }) => name).join(', ');

/** What a person would otherwise open the suite for. */
function chipsOf(suite: Suite): Html | false {
  const variants = variantsOf(suite).filter((variant) => variant !== '').length;
  const chips = [
    suite.needs.length > 0 && `needs ${namesOf(suite.needs)}`,
    variants > 0 && `matrix ×${variants}`,
    suite.services.length > 0 && `services ${namesOf(suite.services)}`,
    suite.manual && 'manual',
    suite.approval && 'approval',
    suite.allow_failure && 'may fail',
  ].filter((chip) => chip !== false);
  return (
    chips.length > 0 && html`<p class="chips">${chips.map((chip) => html`<span class="chip">${chip}</span> `)}</p>`
  );
}

async function usesOf(visit: ProjectVisit, { id_str: id }: Suite): Promise<Html | false> {
  const { api } = visit;
  const strategies = (await api.get('/projects/:project_id/deploy_strategies')).filter(
    ({ strategy_type: type }) => type === 'suite',
  );
  const one = '/projects/:project_id/deploy_strategies/:deploy_strategy_id';
  const whole = await Promise.all(
    strategies.map(async (of) => api.get(one, { params: { deploy_strategy_id: of.id_str } })),
  );
  const running = whole.filter(({ options }) => 'suite_id_str' in options && options.suite_id_str === id);
  const needing = (await api.get('/projects/:project_id/suites')).filter(({ needs }) =>
    needs.some((need) => need.id_str === id),
  );
  if (needing.length + running.length === 0) return false;
  const at = settingsPath(visit);
  return html`<p>As long as something uses it, it cannot be deleted:</p>
    <ul class="plain">
      ${needing.map((by) => html`<li>Suite <a href="${at}/suites/${by.id_str}">${by.name}</a> needs it</li>`)}
      ${running.map((by) => html`<li>Deploy strategy <a href="${at}/deploys/${by.id_str}">${by.name}</a> runs it</li>`)}
    </ul>`;
}

const of = '/projects/:project_id/suites/:suite_id';

const { routes: ofOne } = resource({
  noun: 'suite',
  frame: settingsPage,
  path: '/suites/:suite_id',
  showsSecrets: true,
  read: (visit: ProjectVisit) => visit.api.get(of),
  name: ({ name }) => name,
  all: 'All suites',
  back: (visit) => `${settingsPath(visit)}/suites`,
  form: suiteForm,
  async fields(form, visit, suite) {
    const all = await visit.api.get('/projects/:project_id/suites');
    const dependencies = await dependencyChoices(visit);
    return suiteParts(form, { all, mayBuildImages: visit.imageBuilds, dependencies }, suite);
  },
  below: async (_, visit) =>
    html`${await figuresPart(visit)} ${await rulesPart(visit)} ${await suiteVariables(visit)}
    ${await dependenciesPart(visit, await dependencyChoices(visit))}`,
  save: { route: `PUT ${of}`, fields: chosenRuns, done: 'saved' },
  actions: {
    add_rule: {
      route: `POST ${of}/rules`,
      done: (_, visit) => ({ goTo: `${visit.path}#rules`, notice: 'added' }),
    },
    add_variable: addSuiteVariable,
    add_dependency: {
      route: `POST ${of}/dependencies`,
      done: (_, visit) => ({ goTo: `${visit.path}#dependencies`, notice: 'added' }),
    },
    update_dependency: {
      route: `POST ${of}/dependencies/:dependency_id/update`,
      done: (_, visit) => ({ goTo: `${visit.path}#dependencies`, notice: 'updated' }),
    },
  },
  delete: `DELETE ${of}`,
  mayDelete: isOwned,
  keep: (visit) => `${settingsPath(visit)}/suites/${visit.param('suite_id')}`,
  refusals: { resource_temporary_unavailable: 'It is in use. Take it off everything that uses it first.' },
  async goes(suite, visit) {
    const rules = await visit.api.get(`${of}/rules`);
    const variables = await visit.api.get(`${of}/environment_variables`);
    return html`<p>
        The suite <strong>${suite.name}</strong> is deleted with its command, ${counted(rules.length, 'rule')} and
        ${counted(variables.length, 'variable')}. Its builds and their logs stay.
      </p>
      ${await usesOf(visit, suite)}`;
  },
});

export const routes: PageRoute[] = [...list, ...ofOne];
