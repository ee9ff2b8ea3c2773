import { forgeProviders, isProvider, providerChoices } from '../../shared/domain/forge-providers.ts';
import { required } from '../../shared/records/fields.ts';
import { forgeToken } from '../../shared/records/forge.ts';
import { targetFields, type StatusTarget } from '../../shared/records/notification.ts';
import { fieldTable } from './controls.ts';
import { deliveriesPart, fewDeliveries, receiverCard } from './deliveries.ts';
import { html, type Html } from './html.ts';
import type { PageAction } from './pages.ts';
import { beside, cursors, empty, fact, section } from './parts.ts';
import { madeByConnection } from './project-forge.ts';
import type { ProjectVisit } from './project-pages.ts';
import { resource } from './resource-pages.ts';
import { settingsPage, settingsPath } from './settings.ts';

const of = '/projects/:project_id/status_targets';

const nameOf = (provider: string): string => (isProvider(provider) ? forgeProviders[provider].name : provider);

export const createStatusTarget: PageAction = {
  route: `POST ${of}`,
  done: (_, visit) => ({ goTo: `${visit.path}#statuses-title`, notice: 'created' }),
};

const targetForm = fieldTable(
  { ...targetFields, token: required(forgeToken) },
  {
    provider: { label: 'Provider', choices: providerChoices },
    repository: {
      label: 'Repository',
      isCode: true,
      hint: html`<code>owner/name</code>; for GitLab the path or number of the project.`,
      wrong: 'This is no name of a repository, such as owner/name.',
    },
    api_url: {
      label: 'Address of the API',
      isCode: true,
      hint: html`Blank is the public one. Such as <code>https://gitlab.example.org/api/v4</code>.`,
      wrong: 'This is no web address, or it has a name and password in it.',
    },
    token: {
      label: 'Token',
      type: 'password',
      hint: 'One that may write statuses of commits. It is stored encrypted and never shown.',
      wrong: 'A token has neither spaces nor letters outside ASCII.',
    },
  },
);

/** The target that the project's connection has created. */
async function madeTarget({ api }: ProjectVisit): Promise<string> {
  return (await api.get('/projects/:project_id/overview')).forge_status_target_id_str;
}

export async function statusTargetsPart(visit: ProjectVisit): Promise<Html> {
  const targets = await visit.api.get(of);
  const made = await madeTarget(visit);
  const cards = await Promise.all(targets.map((target) => card(visit, target, target.id_str === made)));
  const none = empty(
    'No forge is told',
    'A status target shows at each commit and pull request of your forge how its suites stand.',
  );
  return section('statuses', 'Statuses', beside(html`${cards.length === 0 ? none : cards}`, await newForm(visit)));
}

async function card(visit: ProjectVisit, target: StatusTarget, isMade: boolean) {
  const { id_str: id, provider, api_url: api, repository } = target;
  const asked = { params: { status_target_id: id }, query: { limit: fewDeliveries } };
  const page = await visit.api.list(`${of}/:status_target_id/deliveries`, asked);
  const path = `${settingsPath(visit)}/triggers/status_targets/${id}`;
  const about = `${nameOf(provider)}, ${new URL(api).host}${isMade ? '; made by the connection' : ''}`;
  return receiverCard({ id, path, name: repository, about, isDeletable: true }, page);
}

const { newForm, routes } = resource({
  noun: 'status target',
  frame: settingsPage,
  path: '/triggers/status_targets/:status_target_id',
  async read(visit: ProjectVisit) {
    const target = await visit.api.get(`${of}/:status_target_id`);
    return { ...target, isMade: target.id_str === (await madeTarget(visit)) };
  },
  all: 'All triggers',
  back: (visit) => `${settingsPath(visit)}/triggers`,
  form: targetForm,
  creation: { action: 'create_status_target' },
  async below({ provider, repository, api_url: api }, visit) {
    const page = await visit.api.list(`${of}/:status_target_id/deliveries`, {
      query: { limit: 50, ...cursors(visit) },
    });
    return html`<dl class="facts card">
        ${fact('Provider', nameOf(provider))} ${fact('Repository', html`<code>${repository}</code>`)}
        ${fact('Address of the API', html`<code>${api}</code>`)}
      </dl>
      ${deliveriesPart(page, visit.path)}`;
  },
  delete: `DELETE ${of}/:status_target_id`,
  goes: ({ repository, provider, isMade }, visit) =>
    html`<p>
        <strong>${nameOf(provider)}</strong> is told nothing more about <strong>${repository}</strong>.
        ${isMade ? 'The record of everything that was told goes' : 'The token goes, with the record of everything that was told'}.
        What stands at the forge stays there.
      </p>
      ${isMade && madeByConnection(visit, 'status target')}`,
});

export { routes };
