import { html } from './html.ts';
import { pageForm } from './forms.ts';
import { ago } from './moments.ts';
import { empty, orMissing, table } from './parts.ts';
import { deletionButton, deletionPage } from './project-pages.ts';
import { settingsPage, settingsPath } from './settings.ts';
import type { PageRoute } from './site.ts';

const of = '/projects/:project_id/collaborators';

const list = settingsPage({
  path: '/members',
  async show(visit) {
    const members = await visit.api.get(of);
    const form = pageForm(visit, 'invite');
    return {
      title: 'Members',
      main: html`<h1>Members</h1>
        <div class="beside">
          <div>
            <p class="aside">
              You own this project. Those you invite can do everything with it but change or delete the project itself,
              delete its suites, strategies and notifications, and invite others.
            </p>
            ${table(
              'Members',
              ['E-mail', 'Since', 'Actions'],
              members.map(
                ({ id_str: id, email, created_at: at }) =>
                  html`<tr>
                    <td id="member-${id}">${email}</td>
                    <td>${ago(at)}</td>
                    <td class="number">${deletionButton(`${visit.path}/${id}/delete`, `member-${id}`)}</td>
                  </tr>`,
              ),
              { none: empty('Nobody else works on this project', 'Invite the people who look after it with you.') },
            )}
          </div>
          <section aria-labelledby="new-title">
            <h2 id="new-title">Invite somebody</h2>
            ${form.wrap(
              form.text('email', 'E-mail', {
                type: 'email',
                required: true,
                hint: 'Who has no account yet gets one that can work on this project. The operator of this server makes the link with which they set their password.',
                wrong: 'This is no e-mail address.',
              }),
              { button: 'Invite', isCard: true, label: 'Invite somebody' },
            )}
          </section>
        </div>`,
    };
  },
  actions: {
    invite: { route: `POST ${of}`, done: 'invited' },
  },
});

const deletion = deletionPage({
  path: '/members/:collaborator_id/delete',
  route: `DELETE ${of}/:collaborator_id`,
  async what(visit) {
    const members = await visit.api.get(of);
    const { email } = orMissing(members.find(({ id_str: id }) => id === visit.param('collaborator_id')));
    return {
      title: `Take ${email} off this project?`,
      goes: html`<p>
        <strong>${email}</strong> can no longer see or do anything here. What they set up and started stays. If they
        have seen secrets of the project, change those.
      </p>`,
    };
  },
  back: (visit) => `${settingsPath(visit)}/members`,
});

export const routes: PageRoute[] = [...list, ...deletion];
