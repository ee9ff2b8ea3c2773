import { forgeProviders, isProvider, providerChoices } from '../../shared/domain/forge-providers.ts';
import { hookFields, type Hook, type HookDelivery, type SecretHook } from '../../shared/records/trigger.ts';
import { fieldTable, wordsOf, type Choices } from './controls.ts';
import { pageForm } from './forms.ts';
import { html, type Html } from './html.ts';
import type { Page } from './layout.ts';
import { ago } from './moments.ts';
import type { PageAction, PageVisit } from './pages.ts';
import { beside, copyable, cursors, empty, pagination, section, shortSha, table } from './parts.ts';
import { madeByConnection } from './project-forge.ts';
import type { ProjectVisit } from './project-pages.ts';
import { resource, shownOnce } from './resource-pages.ts';
import { settingsPage, settingsPath } from './settings.ts';
import { stateBadge } from './states.ts';

const of = '/projects/:project_id/hooks';

const providers: Choices = [...providerChoices, ['generic', 'Any program, such as curl']];
const events: Choices = [
  ['push', 'Pushes to branches'],
  ['tag', 'Tags'],
  ['pull_request', 'Pull and merge requests'],
  ['comment', 'Commands in comments on them'],
];

const hookForm = fieldTable(hookFields, {
  provider: { label: 'Provider', choices: providers },
  events: { label: 'Events', choices: events },
});

function whereTo(provider: string): string {
  if (!isProvider(provider))
    return 'Send a POST with the header Authorization: Bearer SECRET and the field ref, a branch or tag.';
  const { name, hook } = forgeProviders[provider];
  return `On ${name}: ${hook}`;
}

const nameOf = (provider: string): string => wordsOf(providers, provider);

export const createHook: PageAction = {
  route: `POST ${of}`,
  done: (answer, visit) => secretPage(visit, 'Hook created', answer),
};

async function secretPage(
  visit: PageVisit,
  title: string,
  { id_str: id, url, secret, provider }: SecretHook,
): Promise<Page> {
  return {
    ...shownOnce({
      title,
      secrets: html`<section class="card" aria-labelledby="address-title">
        <h2 id="address-title">Address</h2>
        ${copyable(url, 'hook-url')}
        <h2>Secret</h2>
        ${copyable(secret, 'hook-secret')}
        <p>${whereTo(provider)}</p>
      </section>`,
      next: `${settingsPath(visit)}/triggers/hooks/${id}`,
    }),
    project: await visit.api.get('/projects/:project_id'),
    tab: 'settings',
  };
}

/** The hook that the project's connection has created. */
async function madeHook({ api }: ProjectVisit): Promise<string> {
  return (await api.get('/projects/:project_id/overview')).forge_hook_id_str;
}

export async function hooksPart(visit: ProjectVisit): Promise<Html> {
  const made = await madeHook(visit);
  const rows = (await visit.api.get(of)).map((hook) => hookRow(hook, visit, hook.id_str === made));
  const none = empty('No hook yet', 'A hook is an address that your forge calls when something is pushed.');
  return section(
    'hooks',
    'Hooks',
    beside(
      html`<div id="hooks" data-live>${table('Hooks', ['Provider', 'Events', 'Last call'], rows, { none })}</div>`,
      await newForm(visit),
    ),
  );
}

function hookRow(hook: Hook, visit: ProjectVisit, isMade: boolean): Html {
  const { id_str: id, provider, events: names, last_delivery_at: last } = hook;
  return html`<tr id="hook-${id}">
    <td>
      <a href="${settingsPath(visit)}/triggers/hooks/${id}">${nameOf(provider)}</a>
      ${isMade && html`<span class="aside">made by the connection</span>`}
    </td>
    <td>${names.map((name) => wordsOf(events, name)).join(', ')}</td>
    <td class="nowrap">${last === null ? 'Never' : ago(last)}</td>
  </tr>`;
}

const { newForm, routes } = resource({
  noun: 'hook',
  frame: settingsPage,
  path: '/triggers/hooks/:hook_id',
  async read(visit: ProjectVisit) {
    const hook = await visit.api.get(`${of}/:hook_id`);
    return { ...hook, isMade: hook.id_str === (await madeHook(visit)) };
  },
  all: 'All triggers',
  back: (visit) => `${settingsPath(visit)}/triggers`,
  heading: ({ provider }) => `Hook: ${nameOf(provider)}`,
  form: hookForm,
  creation: { action: 'create_hook' },
  save: { route: `PUT ${of}/:hook_id`, done: 'saved' },
  actions: {
    new_secret: {
      route: `POST ${of}/:hook_id/new_secret`,
      done: (answer, visit) => secretPage(visit, 'New secret', answer),
    },
    replay: {
      route: `POST ${of}/:hook_id/deliveries/:hook_delivery_id/replay`,
      done: (_, visit) => ({ goTo: `${visit.path}#deliveries-title`, notice: 'replayed' }),
    },
  },
  above: ({ isMade, url, provider }, visit) =>
    section(
      'address',
      'Address',
      html`${copyable(url, 'hook-url')}
      ${
        isMade
          ? html`<p>The connection to the forge has made this hook: the forge knows its address and its secret.</p>`
          : html`<p>${whereTo(provider)} The secret was shown when it was made.</p>
              ${pageForm(visit, 'new_secret').wrap(false, { button: 'New secret', kind: 'plain' })}`
      }`,
      { isCard: true },
    ),
  async below(_, visit) {
    const page = await visit.api.list(`${of}/:hook_id/deliveries`, { query: { limit: 30, ...cursors(visit) } });
    const rows = page.items.map((delivery) => deliveryRow(delivery, visit));
    const none = html`<p class="aside">Nothing arrived yet.</p>`;
    return section(
      'deliveries',
      'What arrived',
      html`<div id="deliveries" data-live>
          ${table('What arrived', ['When', 'What', 'What came of it', 'Actions'], rows, { none })}
        </div>
        ${pagination(page, { path: visit.path })}`,
    );
  },
  delete: `DELETE ${of}/:hook_id`,
  goes: ({ provider, isMade }, visit) =>
    html`<p>
        The hook for <strong>${nameOf(provider)}</strong> is deleted with its secret and its deliveries. From then on,
        the server refuses calls to its address. Its builds stay.
      </p>
      ${isMade && madeByConnection(visit, 'hook')}`,
});

export { routes };

function deliveryRow(delivery: HookDelivery, visit: ProjectVisit): Html {
  const { id_str: id, event, action, ref, sha, sender, received_at: at, changes } = delivery;
  const parts = changes.length > 1 ? changes : [delivery];
  return html`<tr id="hook-delivery-${id}">
    <td class="nowrap">${ago(at)}</td>
    <td id="hook-delivery-what-${id}">
      ${event} ${action} ${ref !== '' && html`<code>${ref}</code>`} ${sha !== '' && html`<code>${shortSha(sha)}</code>`}
      ${sender !== '' && `by ${sender}`}
    </td>
    <td>
      ${parts.map(
        ({ ref: of, outcome, reason, build_request_id_str: request }) =>
          html`<p>
            ${stateBadge(outcome)} ${changes.length > 1 && html`<code>${of}</code>`} ${reason}
            ${request !== '' && html`<a href="${visit.projectPath}/requests/${request}">Build request</a>`}
          </p>`,
      )}
    </td>
    <td class="number">
      ${
        // A refused call was never parsed, so it cannot be handled again.
        delivery.outcome !== 'refused' &&
        pageForm(visit, 'replay', { hook_delivery_id: id }).wrap(false, {
          button: 'Replay',
          kind: 'quiet',
          describedBy: `hook-delivery-what-${id}`,
        })
      }
    </td>
  </tr>`;
}
