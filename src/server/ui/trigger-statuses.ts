import { forgeProviders, isProvider, providerChoices } from '../../shared/domain/forge-providers.ts';
import { required } from '../../shared/records/fields.ts';
import { forgeToken } from '../../shared/records/forge.ts';
import { targetFields, type StatusTarget } from '../../shared/records/notification.ts';
import { projectFields } from '../../shared/records/project.ts';
import { fieldTable } from './controls.ts';
import { deliveriesPart, fewDeliveries, receiverCard, receiverTrouble } from './deliveries.ts';
import { pageForm, recordForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { beside, copyable, cursors, empty, fact, section } from './parts.ts';
import { madeByConnection } from './project-forge.ts';
import type { PageAction } from './pages.ts';
import type { ProjectVisit } from './project-pages.ts';
import { resource } from './resource-pages.ts';
import { settingsPage, settingsPath } from './settings.ts';
import type { PageRoute } from './site.ts';

const of = '/projects/:project_id/status_targets';

const nameOf = (provider: string): string => (isProvider(provider) ? forgeProviders[provider].name : provider);

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

const tryNow: PageAction = { route: `POST ${of}/:status_target_id/try_now`, done: 'trying' };

/** The target that the project's connection has created. */
async function madeTarget({ api }: ProjectVisit): Promise<string> {
  return (await api.get('/projects/:project_id/overview')).forge_status_target_id_str;
}

async function targetsPart(visit: ProjectVisit): Promise<Html> {
  const targets = await visit.api.get(of);
  const made = await madeTarget(visit);
  const cards = await Promise.all(targets.map((target) => card(visit, target, target.id_str === made)));
  const none = empty(
    'No forge is told',
    'A status target shows at each commit and pull request of your forge how its suites stand.',
  );
  return section('targets', 'Status targets', beside(html`${cards.length === 0 ? none : cards}`, await newForm(visit)));
}

async function card(visit: ProjectVisit, target: StatusTarget, isMade: boolean) {
  const { id_str: id, provider, api_url: api, repository } = target;
  const asked = { params: { status_target_id: id }, query: { limit: fewDeliveries } };
  const page = await visit.api.list(`${of}/:status_target_id/deliveries`, asked);
  const path = `${settingsPath(visit)}/triggers/status_targets/${id}`;
  const about = `${nameOf(provider)}, ${new URL(api).host}${isMade ? '; made by the connection' : ''}`;
  const state = await visit.api.get(`${of}/:status_target_id/receiver`, { params: asked.params });
  const trouble = receiverTrouble(id, state, pageForm(visit, 'try_now', asked.params));
  const { projectPath } = visit;
  return receiverCard({ id, path, name: repository, about, isDeletable: true, projectPath }, page, trouble);
}

const { newForm, routes: ofOne } = resource({
  noun: 'status target',
  frame: settingsPage,
  path: '/triggers/status_targets/:status_target_id',
  async read(visit: ProjectVisit) {
    const target = await visit.api.get(`${of}/:status_target_id`);
    return { ...target, isMade: target.id_str === (await madeTarget(visit)) };
  },
  all: 'All statuses',
  back: (visit) => `${settingsPath(visit)}/triggers/statuses`,
  form: targetForm,
  creation: { action: 'create_status_target' },
  above: async ({ id_str: id }, visit) =>
    receiverTrouble(id, await visit.api.get(`${of}/:status_target_id/receiver`), pageForm(visit, 'try_now')),
  actions: { try_now: tryNow },
  async below({ provider, repository, api_url: api }, visit) {
    const page = await visit.api.list(`${of}/:status_target_id/deliveries`, {
      query: { limit: 50, ...cursors(visit) },
    });
    return html`<dl class="facts card">
        ${fact('Provider', nameOf(provider))} ${fact('Repository', html`<code>${repository}</code>`)}
        ${fact('Address of the API', html`<code>${api}</code>`)}
      </dl>
      ${deliveriesPart(page, visit)}`;
  },
  delete: `DELETE ${of}/:status_target_id`,
  goes: ({ repository, provider, isMade }, visit) =>
    html`<p>
        <strong>${nameOf(provider)}</strong> no longer gets statuses for <strong>${repository}</strong>.
        ${isMade ? 'Its deliveries are deleted' : 'The token is deleted with its deliveries'}. Statuses at the forge
        stay unchanged.
      </p>
      ${isMade && madeByConnection(visit, 'status target')}`,
});

const shownForm = fieldTable(projectFields, {
  report_left_out: {
    label: 'Report suites that rules leave out',
    hint: 'Forges are told that they passed, so that a check which is required does not wait for ever.',
  },
  public_badge: {
    label: 'Public badge',
    hint: 'Anybody who knows its address may see whether the project passes, and nothing else.',
  },
});

function shownPart(visit: ProjectVisit): Html {
  const { project } = visit;
  const form = recordForm(visit, 'save_badge', shownForm, project);
  return section(
    'badge',
    'Reports and badge',
    html`${project.owned ? form.wrap(form.fields(), { button: 'Save', isCard: true, label: 'Reports and badge' }) : form.facts()}
    ${project.public_badge && badge(visit)}`,
  );
}

function badge({ project, origin }: ProjectVisit): Html {
  const path = `/projects/${project.id_str}/badge.svg`;
  const markdown = `[![build](${origin}${path})](${origin}/ui/projects/${project.id_str})`;
  return html`<div class="card">
    <h3>Badge</h3>
    <p><img src="${path}" alt="The badge as it is now" height="20" /></p>
    <p class="aside">For one branch, write <code>badge.svg?branch=NAME</code>. As Markdown, for a README:</p>
    ${copyable(markdown, 'badge-markdown')}
  </div>`;
}

const list = settingsPage({
  path: '/triggers/statuses',
  async show(visit) {
    return {
      title: 'Statuses',
      main: html`<h1>Statuses</h1>
        ${visit.project.owned && (await targetsPart(visit))} ${shownPart(visit)}`,
    };
  },
  actions: {
    create_status_target: { route: `POST ${of}`, done: 'created' },
    try_now: tryNow,
    save_badge: { route: 'PUT /projects/:project_id', done: 'saved' },
  },
});

export const routes: PageRoute[] = [...list, ...ofOne];
