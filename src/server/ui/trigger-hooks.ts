import { forgeProviders, isProvider, providerChoices } from '../../shared/domain/forge-providers.ts';
import type { Hook, HookDelivery, SecretHook } from '../../shared/records/trigger.ts';
import { pageForm, type PageForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { notice, type Page } from './layout.ts';
import { ago } from './moments.ts';
import type { PageAction, PageVisit } from './pages.ts';
import { copyable, empty, pagination, shortSha, table } from './parts.ts';
import { deletionPage, type ProjectVisit, recordHead } from './project-pages.ts';
import { madeByConnection } from './project-forge.ts';
import { settingsPage, settingsPath } from './settings.ts';
import type { PageRoute } from './site.ts';
import { stateBadge } from './states.ts';

const of = '/projects/:project_id/hooks';

const providers: readonly (readonly [string, string])[] = [
  ...providerChoices,
  ['generic', 'Any program, such as curl'],
];

const events: readonly (readonly [string, string])[] = [
  ['push', 'Pushes to branches'],
  ['tag', 'Tags'],
  ['pull_request', 'Pull and merge requests'],
];

function whereTo(provider: string): string {
  if (!isProvider(provider))
    return 'Send a POST with the header Authorization: Bearer SECRET and the field ref, a branch or tag.';
  const { name, hook } = forgeProviders[provider];
  return `On ${name}: ${hook}`;
}

const nameOf = (provider: string): string => providers.find(([one]) => one === provider)?.[1] ?? provider;
const eventLabels = (names: readonly string[]): string =>
  events
    .filter(([one]) => names.includes(one))
    .map(([, words]) => words)
    .join(', ');

function hookFields(form: PageForm, hook?: Hook): Html {
  return html`${form.select('provider', 'Provider', providers, { value: hook?.provider })}
  ${form.checks('events', 'Events', events, hook?.events ?? events.map(([name]) => name))}`;
}

export const createHook: PageAction = {
  route: `POST ${of}`,
  done: (answer, visit) => secretPage(visit, 'Hook created', answer),
};

/** The secret cannot be shown again. */
async function secretPage(
  visit: PageVisit,
  title: string,
  { id_str: id, url, secret, provider }: SecretHook,
): Promise<Page> {
  return {
    title,
    project: await visit.api.get('/projects/:project_id'),
    tab: 'settings',
    isWorthPacking: false,
    main: html`<h1>${title}</h1>
      ${notice('good', 'The secret is shown this once: copy it now.')}
      <section class="card" aria-labelledby="address-title">
        <h2 id="address-title">Address</h2>
        ${copyable(url, 'hook-url')}
        <h2>Secret</h2>
        ${copyable(secret, 'hook-secret')}
        <p>${whereTo(provider)}</p>
      </section>
      <p><a class="button main" href="${settingsPath(visit)}/triggers/hooks/${id}">Go on</a></p>`,
  };
}

export async function hooksPart(visit: ProjectVisit): Promise<Html> {
  const hooks = await visit.api.get(of);
  const { forge_hook_id_str: made } = await visit.api.get('/projects/:project_id/overview');
  const form = pageForm(visit, 'create_hook');
  return html`<section aria-labelledby="hooks-title">
    <h2 id="hooks-title">Hooks</h2>
    <div class="beside">
      <div id="hooks" data-live>
        ${table(
          'Hooks',
          ['Provider', 'Events', 'Last call'],
          hooks.map((hook) => hookRow(hook, visit, hook.id_str === made)),
          { none: empty('No hook yet', 'A hook is an address that your forge calls when something is pushed.') },
        )}
      </div>
      ${form.wrap(hookFields(form), { button: 'Create hook', isCard: true, label: 'New hook' })}
    </div>
  </section>`;
}

function hookRow(hook: Hook, visit: ProjectVisit, isMade: boolean): Html {
  const { id_str: id, provider, events: names, last_delivery_at: last } = hook;
  return html`<tr id="hook-${id}">
    <td>
      <a href="${settingsPath(visit)}/triggers/hooks/${id}">${nameOf(provider)}</a>
      ${isMade && html`<span class="aside">made by the connection</span>`}
    </td>
    <td>${eventLabels(names)}</td>
    <td class="nowrap">${last === null ? 'Never' : ago(last)}</td>
  </tr>`;
}

const one = settingsPage({
  path: '/triggers/hooks/:hook_id',
  async show(visit) {
    const hook = await visit.api.get(`${of}/:hook_id`);
    const query = { before: visit.queryText('before') || undefined, after: visit.queryText('after') || undefined };
    const page = await visit.api.list(`${of}/:hook_id/deliveries`, { query: { limit: 30, ...query } });
    const form = pageForm(visit, 'save');
    const { forge_hook_id_str: made } = await visit.api.get('/projects/:project_id/overview');
    return {
      title: 'Hook',
      main: html`${recordHead(visit, { back: `${settingsPath(visit)}/triggers`, all: 'All triggers', title: `Hook: ${nameOf(hook.provider)}` })}
        <section class="card" aria-labelledby="address-title">
          <h2 id="address-title">Address</h2>
          ${copyable(hook.url, 'hook-url')}
          ${
            made === hook.id_str
              ? html`<p>The connection to the forge has made this hook: the forge knows its address and its secret.</p>`
              : html`<p>${whereTo(hook.provider)} The secret was shown when it was made.</p>
                  ${pageForm(visit, 'new_secret').wrap(html``, { button: 'New secret', kind: 'plain' })}`
          }
        </section>
        ${form.wrap(hookFields(form, hook), { button: 'Save', isCard: true, label: 'Hook' })}
        <section aria-labelledby="deliveries-title">
          <h2 id="deliveries-title">What arrived</h2>
          <div id="deliveries" data-live>
            ${
              page.items.length === 0
                ? html`<p class="aside">Nothing arrived yet.</p>`
                : table(
                    'What arrived',
                    ['When', 'What', 'What came of it', 'Actions'],
                    page.items.map((delivery) => deliveryRow(delivery, visit)),
                  )
            }
          </div>
          ${pagination(page, { path: visit.path })}
        </section>`,
    };
  },
  actions: {
    save: { route: `PUT ${of}/:hook_id`, done: 'saved' },
    new_secret: {
      route: `POST ${of}/:hook_id/new_secret`,
      done: (answer, visit) => secretPage(visit, 'New secret', answer),
    },
    replay: {
      route: `POST ${of}/:hook_id/deliveries/:hook_delivery_id/replay`,
      done: (_, visit) => ({ goTo: `${visit.path}#deliveries-title`, notice: 'replayed' }),
    },
  },
});

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
        // A refused call was never parsed, so it cannot be decided again.
        delivery.outcome !== 'refused' &&
        pageForm(visit, 'replay', { hook_delivery_id: id }).wrap(html``, {
          button: 'Replay',
          kind: 'quiet',
          describedBy: `hook-delivery-what-${id}`,
        })
      }
    </td>
  </tr>`;
}

const deletion = deletionPage({
  path: '/triggers/hooks/:hook_id/delete',
  route: `DELETE ${of}/:hook_id`,
  async what(visit) {
    const { provider, id_str: id } = await visit.api.get(`${of}/:hook_id`);
    const { forge_hook_id_str: made } = await visit.api.get('/projects/:project_id/overview');
    return {
      title: 'Delete this hook?',
      goes: html`<p>
          The hook for <strong>${nameOf(provider)}</strong> goes, with its secret and the record of what arrived. What
          the forge sends to its address is refused from then on. Builds that it asked for stay.
        </p>
        ${id === made && madeByConnection(visit, 'hook')}`,
    };
  },
  back: (visit) => `${settingsPath(visit)}/triggers`,
});

export const routes: PageRoute[] = [...one, ...deletion];
