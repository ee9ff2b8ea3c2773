import { required, text } from '../../shared/records/fields.ts';
import { memberRole, memberRoles, organisationFields, type MemberView } from '../../shared/records/organisation.ts';
import { fieldTable } from './controls.ts';
import { pageForm, recordForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { ago } from './moments.ts';
import { manages, organisationsPath, shownOrganisation, type Shown } from './organisation-page.ts';
import {
  auditPart,
  dependenciesPart,
  forgesPart,
  recordActions,
  registriesPart,
  runnersPart,
} from './organisation-records.ts';
import { addVariable, variablesPart } from './organisation-variables.ts';
import { page, type PageVisit } from './pages.ts';
import { beside, copyable, empty, section, table } from './parts.ts';
import { backLink, deletionButton, shownOnce } from './resource-pages.ts';
import type { PageRoute } from './site.ts';
import { stateBadge } from './states.ts';

const organisationForm = fieldTable(organisationFields, {
  name: {
    label: 'Name',
    isCode: true,
    wrong: 'A name has 1 to 64 lower-case letters, digits and hyphens.',
  },
  description: { label: 'Description', rows: 2 },
});

const list = page({
  path: organisationsPath,
  async show(visit) {
    const organisations = await visit.api.get('/organisations');
    const form = recordForm(visit, 'create', organisationForm);
    const none = empty('No organisations yet', 'An organisation owns projects together with several people.');
    const rows = organisations.map(
      ({ name, description, role }) =>
        html`<tr>
          <td><a href="${organisationsPath}/${name}">${name}</a></td>
          <td>${description}</td>
          <td>${role}</td>
        </tr>`,
    );
    return {
      title: 'Organisations',
      main: html`<h1>Organisations</h1>
        ${beside(
          table('Organisations', ['Name', 'Description', 'Your role'], rows, { none }),
          visit.person.kind === 'user'
            ? form.wrap(form.fields(), { button: 'Create organisation', isCard: true, label: 'New organisation' })
            : html``,
        )}`,
    };
  },
  actions: { create: { route: 'POST /organisations', done: ({ name }) => ({ goTo: `${organisationsPath}/${name}` }) } },
});

const roleChoices = memberRoles.map((role) => [role, role] as const);
const memberForm = fieldTable(
  { email: required(text('email')), role: memberRole },
  {
    email: { label: 'E-mail', type: 'email', wrong: 'This is no e-mail address, or it belongs to a member.' },
    role: { label: 'Role', choices: roleChoices },
  },
);

async function projectsPart(shown: Shown): Promise<Html> {
  const { visit, organisation, of } = shown;
  const projects = await visit.api.get('/projects', { query: of });
  const rows = projects.map(
    ({ id_str: id, name, description, build_state: state }) =>
      html`<tr>
        <td><a href="/ui/projects/${id}">${name}</a></td>
        <td>${stateBadge(state)}</td>
        <td class="brief">${description}</td>
      </tr>`,
  );
  return section(
    'projects',
    'Projects',
    html`${table('Projects', ['Name', 'State', 'Description'], rows, { none: empty('No projects yet', 'Nothing is built here.') })}
    ${manages(shown) && html`<p><a class="button" href="/ui/projects/new?organisation=${organisation.name}">New project</a></p>`}`,
  );
}

async function membersPart({ visit, organisation, of }: Shown): Promise<Html> {
  const members = await visit.api.get('/organisations/:organisation_id/members', { params: of });
  const isOwner = organisation.role === 'owner';
  const form = recordForm(visit, 'invite', memberForm, undefined, of);
  return section(
    'members',
    'Members',
    beside(
      table(
        'Members',
        ['E-mail', 'Role', 'Since', 'Actions'],
        members.map((one) => memberRow(visit, of, one, isOwner)),
      ),
      isOwner ? form.wrap(form.fields(), { button: 'Invite', isCard: true, label: 'Invite a user' }) : html``,
    ),
    { isTarget: true },
  );
}

function memberRow(visit: PageVisit, of: Shown['of'], member: MemberView, isOwner: boolean): Html {
  const { id_str: id, email, role, state } = member;
  const about = `member-${id}`;
  const named = { ...of, member_id: id };
  const roles = html`<select name="role" aria-label="Role of ${email}">
    ${memberRoles.map((one) => html`<option value="${one}" ${one === role && html`selected`}>${one}</option>`)}
  </select>`;
  const change = pageForm(visit, 'role', named);
  const isOwn = email === visit.person.email;
  return html`<tr>
    <td id="${about}">${email}${state === 'invited' && ' (invited)'}</td>
    <td>
      ${isOwner ? change.wrap(roles, { button: 'Save', kind: 'quiet', isInline: true, describedBy: about }) : role}
    </td>
    <td>${ago(member.since)}</td>
    <td class="number">
      ${
        (isOwner || isOwn) &&
        pageForm(visit, isOwn ? 'leave' : 'remove', named).wrap(false, {
          button: isOwn ? 'Leave' : 'Remove',
          kind: 'quiet',
          describedBy: about,
        })
      }
    </td>
  </tr>`;
}

const one = page({
  path: `${organisationsPath}/:organisation_name`,
  showsSecrets: true,
  async show(visit) {
    const shown = await shownOrganisation(visit);
    const { organisation } = shown;
    const { name, role } = organisation;
    const isOwner = role === 'owner';
    const form = recordForm(visit, 'save', organisationForm, organisation, shown.of);
    return {
      title: name,
      main: html`${backLink(organisationsPath, 'Organisations')}
        <div class="title">
          <h1>${name}</h1>
          ${isOwner && deletionButton(`${visit.path}/delete`)}
        </div>
        ${organisation.description !== '' && html`<p>${organisation.description}</p>`}
        <p class="aside">Your role: ${role}</p>
        ${await projectsPart(shown)} ${await membersPart(shown)} ${await variablesPart(shown)}
        ${manages(shown) && html`${await forgesPart(shown)} ${await registriesPart(shown)}`}
        ${visit.person.kind === 'user' && (await dependenciesPart(shown))}
        ${isOwner && html`${await runnersPart(shown)} ${await auditPart(shown)}`}
        ${
          isOwner &&
          section(
            'settings',
            'Name and description',
            form.wrap(form.fields(), { button: 'Save', isCard: true, label: 'Organisation' }),
          )
        }`,
    };
  },
  actions: {
    invite: {
      route: 'POST /organisations/:organisation_id/members',
      done: ({ invitation_url: url, email, mailed }, visit) =>
        url === ''
          ? { goTo: `${visit.path}#members`, notice: 'added' }
          : shownOnce({
              title: `Invitation for ${email}`,
              what: 'address',
              secrets: html`<p>
                  ${
                    mailed
                      ? html`${email} has it by e-mail. It works once, within a week.`
                      : html`Send this address to ${email}. It works once, within a week.`
                  }
                </p>
                ${copyable(url, 'invitation')}`,
              next: visit.path,
            }),
    },
    role: { route: 'PUT /organisations/:organisation_id/members/:member_id', done: 'saved' },
    remove: { route: 'DELETE /organisations/:organisation_id/members/:member_id', done: 'deleted' },
    leave: {
      route: 'DELETE /organisations/:organisation_id/members/:member_id',
      done: () => ({ goTo: organisationsPath, notice: 'deleted' }),
    },
    add_variable: addVariable,
    ...recordActions,
    save: {
      route: 'PUT /organisations/:organisation_id',
      done: ({ name }) => ({ goTo: `${organisationsPath}/${name}`, notice: 'saved' }),
    },
  },
});

const deletion = page({
  path: `${organisationsPath}/:organisation_name/delete`,
  async show(visit) {
    const { organisation, of } = await shownOrganisation(visit);
    const { name } = organisation;
    return {
      title: `Delete ${name}?`,
      main: html`<h1>Delete ${name}?</h1>
        <div class="card confirm">
          <p>
            <strong>${name}</strong> is deleted with its members, variables, registries and forges. Its projects must be
            handed over or deleted first.
          </p>
          <p>This cannot be undone.</p>
          <div class="row choice">
            ${pageForm(visit, 'delete', of).wrap(false, { button: 'Delete', kind: 'danger' })}
            <a class="button" href="${organisationsPath}/${name}">Keep it</a>
          </div>
        </div>`,
    };
  },
  actions: {
    delete: {
      route: 'DELETE /organisations/:organisation_id',
      done: () => ({ goTo: organisationsPath, notice: 'deleted' }),
    },
  },
});

export const routes: PageRoute[] = [...list, ...one, ...deletion];
