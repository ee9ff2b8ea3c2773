import { required, text } from '../../shared/records/fields.ts';
import { fieldTable } from './controls.ts';
import { recordForm } from './forms.ts';
import { html } from './html.ts';
import { ago } from './moments.ts';
import { beside, empty, orMissing, section, table } from './parts.ts';
import type { ProjectVisit } from './project-pages.ts';
import { deletionButton, deletionPage } from './resource-pages.ts';
import { settingsPage, settingsPath } from './settings.ts';
import type { PageRoute } from './site.ts';

const of = '/projects/:project_id/collaborators';

const memberForm = fieldTable(
  { email: required(text('email')) },
  {
    email: {
      label: 'E-mail',
      type: 'email',
      hint: 'Who has no account yet gets one that can work on this project. The operator of this server makes the link with which they set their password.',
      wrong: 'This is no e-mail address.',
    },
  },
);

const list = settingsPage({
  path: '/members',
  async show(visit) {
    const members = await visit.api.get(of);
    const form = recordForm(visit, 'invite', memberForm);
    const rows = members.map(
      ({ id_str: id, email, created_at: at }) =>
        html`<tr>
          <td id="member-${id}">${email}</td>
          <td>${ago(at)}</td>
          <td class="number">${deletionButton(`${visit.path}/${id}/delete`, `member-${id}`)}</td>
        </tr>`,
    );
    const none = empty('No other users yet', 'Invite users to work on this project with you.');
    return {
      title: 'Members',
      main: html`<h1>Members</h1>
        ${beside(
          html`<p class="aside">
              You own this project. Those you invite can do everything with it but change or delete the project itself,
              delete its suites, strategies and notifications, and invite others.
            </p>
            ${table('Members', ['E-mail', 'Since', 'Actions'], rows, { none })}`,
          section(
            'new',
            'Invite a user',
            form.wrap(form.fields(), { button: 'Invite', isCard: true, label: 'Invite a user' }),
          ),
        )}`,
    };
  },
  actions: {
    invite: { route: `POST ${of}`, done: 'invited' },
  },
});

const deletion = deletionPage({
  frame: settingsPage,
  path: '/members/:collaborator_id/delete',
  route: `DELETE ${of}/:collaborator_id`,
  async read(visit: ProjectVisit) {
    const members = await visit.api.get(of);
    return orMissing(members.find(({ id_str: id }) => id === visit.param('collaborator_id')));
  },
  question: ({ email }) => `Take ${email} off this project?`,
  goes: ({ email }) =>
    html`<p>
      <strong>${email}</strong> can no longer see or do anything here. What they set up and started stays. If they have
      seen secrets of the project, change those.
    </p>`,
  back: (visit) => `${settingsPath(visit)}/members`,
});

export const routes: PageRoute[] = [...list, ...deletion];
