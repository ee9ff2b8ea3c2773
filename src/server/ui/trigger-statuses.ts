import { forgeProviders, isProvider, providerChoices } from '../../shared/domain/forge-providers.ts';
import type { StatusTarget } from '../../shared/records/notification.ts';
import { deliveriesPart, fewDeliveries, receiverCard } from './deliveries.ts';
import { pageForm } from './forms.ts';
import { html, type Html } from './html.ts';
import type { PageAction } from './pages.ts';
import { empty, fact } from './parts.ts';
import { deletionPage, type ProjectVisit, recordHead } from './project-pages.ts';
import { madeByConnection } from './project-forge.ts';
import { settingsPage, settingsPath } from './settings.ts';
import type { PageRoute } from './site.ts';

const of = '/projects/:project_id/status_targets';

const nameOf = (provider: string): string => (isProvider(provider) ? forgeProviders[provider].name : provider);

export const createStatusTarget: PageAction = {
  route: `POST ${of}`,
  done: (_, visit) => ({ goTo: `${visit.path}#statuses-title`, notice: 'created' }),
};

export async function statusTargetsPart(visit: ProjectVisit): Promise<Html> {
  const targets = await visit.api.get(of);
  const form = pageForm(visit, 'create_status_target');
  const { forge_status_target_id_str: made } = await visit.api.get('/projects/:project_id/overview');
  const cards = await Promise.all(targets.map((target) => card(visit, target, target.id_str === made)));
  return html`<section aria-labelledby="statuses-title">
    <h2 id="statuses-title">Statuses</h2>
    <div class="beside">
      <div>
        ${
          cards.length === 0
            ? empty(
                'No forge is told',
                'A status target shows at each commit and pull request of your forge how its suites stand.',
              )
            : cards
        }
      </div>
      ${form.wrap(
        html`${form.select('provider', 'Provider', providerChoices)}
        ${form.text('repository', 'Repository', {
          required: true,
          isCode: true,
          hint: html`<code>owner/name</code>; for GitLab the path or number of the project.`,
          wrong: 'This is no name of a repository, such as owner/name.',
        })}
        ${form.text('api_url', 'Address of the API', {
          isCode: true,
          hint: html`Blank is the public one. Such as <code>https://gitlab.example.org/api/v4</code>.`,
          wrong: 'This is no web address, or it has a name and password in it.',
        })}
        ${form.text('token', 'Token', {
          type: 'password',
          required: true,
          autocomplete: 'new-password',
          hint: 'One that may write statuses of commits. It is stored encrypted and never shown.',
          wrong: 'A token has neither spaces nor letters outside ASCII.',
        })}`,
        { button: 'Create status target', isCard: true, label: 'New status target' },
      )}
    </div>
  </section>`;
}

async function card(visit: ProjectVisit, target: StatusTarget, isMade: boolean) {
  const { id_str: id, provider, api_url: api, repository } = target;
  const asked = { params: { status_target_id: id }, query: { limit: fewDeliveries } };
  const page = await visit.api.list(`${of}/:status_target_id/deliveries`, asked);
  const path = `${settingsPath(visit)}/triggers/status_targets/${id}`;
  const about = `${nameOf(provider)}, ${new URL(api).host}${isMade ? '; made by the connection' : ''}`;
  return receiverCard({ id, path, name: repository, about, isDeletable: true }, page);
}

const one = settingsPage({
  path: '/triggers/status_targets/:status_target_id',
  async show(visit) {
    const target = await visit.api.get(`${of}/:status_target_id`);
    const query = { before: visit.queryText('before') || undefined, after: visit.queryText('after') || undefined };
    const page = await visit.api.list(`${of}/:status_target_id/deliveries`, {
      query: { limit: 50, ...query },
    });
    return {
      title: 'Status target',
      main: html`${recordHead(visit, { back: `${settingsPath(visit)}/triggers`, all: 'All triggers', title: 'Status target' })}
        <dl class="facts card">
          ${fact('Provider', nameOf(target.provider))} ${fact('Repository', html`<code>${target.repository}</code>`)}
          ${fact('Address of the API', html`<code>${target.api_url}</code>`)}
        </dl>
        ${deliveriesPart(page, visit.path)}`,
    };
  },
});

const deletion = deletionPage({
  path: '/triggers/status_targets/:status_target_id/delete',
  route: `DELETE ${of}/:status_target_id`,
  async what(visit) {
    const { repository, provider, id_str: id } = await visit.api.get(`${of}/:status_target_id`);
    const { forge_status_target_id_str: made } = await visit.api.get('/projects/:project_id/overview');
    return {
      title: 'Delete this status target?',
      goes: html`<p>
          <strong>${nameOf(provider)}</strong> is told nothing more about <strong>${repository}</strong>.
          ${id === made ? 'The record of everything that was told goes' : 'The token goes, with the record of everything that was told'}.
          What stands at the forge stays there.
        </p>
        ${id === made && madeByConnection(visit, 'status target')}`,
    };
  },
  back: (visit) => `${settingsPath(visit)}/triggers`,
});

export const routes: PageRoute[] = [...one, ...deletion];
