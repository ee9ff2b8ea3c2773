import { required, text } from '../../shared/records/fields.ts';
import {
  memberRole,
  memberRoles,
  organisationFields,
  type MemberView,
  type OrganisationView,
} from '../../shared/records/organisation.ts';
import { variableFields } from '../../shared/records/suite.ts';
import { fieldTable } from './controls.ts';
import { pageForm, recordForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { ago } from './moments.ts';
import { page, type PageVisit } from './pages.ts';
import { beside, copyable, cursors, empty, orMissing, pagination, section, table } from './parts.ts';
import { refsTexts } from './settings-deploys.ts';
import { backLink, deletionButton, shownOnce } from './resource-pages.ts';
import type { PageRoute } from './site.ts';
import { stateBadge } from './states.ts';

const all = '/ui/organisations';

const organisationForm = fieldTable(organisationFields, {
  name: {
    label: 'Name',
    isCode: true,
    wrong: 'A name has 1 to 64 lower-case letters, digits and hyphens.',
  },
  description: { label: 'Description', rows: 2 },
});

const list = page({
  path: all,
  async show(visit) {
    const organisations = await visit.api.get('/organisations');
    const form = recordForm(visit, 'create', organisationForm);
    const none = empty('No organisations yet', 'An organisation owns projects together with several people.');
    const rows = organisations.map(
      ({ name, description, role }) =>
        html`<tr>
          <td><a href="${all}/${name}">${name}</a></td>
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
  actions: { create: { route: 'POST /organisations', done: ({ name }) => ({ goTo: `${all}/${name}` }) } },
});

async function organisationIn({ api, param }: PageVisit): Promise<OrganisationView> {
  const organisations = await api.get('/organisations');
  return orMissing(organisations.find(({ name }) => name === param('organisation_name')));
}

const roleChoices = memberRoles.map((role) => [role, role] as const);
const memberForm = fieldTable(
  { email: required(text('email')), role: memberRole },
  {
    email: { label: 'E-mail', type: 'email', wrong: 'This is no e-mail address, or it belongs to a member.' },
    role: { label: 'Role', choices: roleChoices },
  },
);

const variableForm = fieldTable(variableFields, {
  name: {
    label: 'Name',
    isCode: true,
    wrong: 'A name has letters, digits and underscores, and does not start with a digit.',
  },
  content: { label: 'Content', rows: 2, isCode: true },
  secret: { label: 'Secret', hint: 'Masked wherever a log would show it.' },
  refs: refsTexts,
});

interface Shown {
  visit: PageVisit;
  organisation: OrganisationView;
  of: { organisation_id: string };
}

async function projectsPart({ visit, organisation, of }: Shown): Promise<Html> {
  const projects = await visit.api.get('/projects', { query: of });
  const rows = projects.map(
    ({ id_str: id, name, description, build_state: state }) =>
      html`<tr>
        <td><a href="/ui/projects/${id}">${name}</a></td>
        <td>${stateBadge(state)}</td>
        <td>${description}</td>
      </tr>`,
  );
  const mayCreate = organisation.role === 'owner' || organisation.role === 'maintainer';
  return section(
    'projects',
    'Projects',
    html`${table('Projects', ['Name', 'State', 'Description'], rows, { none: empty('No projects yet', 'Nothing is built here.') })}
    ${mayCreate && html`<p><a class="button" href="/ui/projects/new?organisation=${organisation.name}">New project</a></p>`}`,
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

async function variablesPart({ visit, organisation, of }: Shown): Promise<Html> {
  const variables = await visit.api.get('/organisations/:organisation_id/environment_variables', { params: of });
  const mayChange = organisation.role === 'owner' || organisation.role === 'maintainer';
  const form = recordForm(visit, 'add_variable', variableForm, undefined, of);
  const rows = variables.map(
    ({ id_str: id, name, secret, refs }) =>
      html`<tr>
        <td id="variable-${id}"><code>${name}</code></td>
        <td>${secret ? 'yes' : 'no'}</td>
        <td>${refs.length === 0 ? 'all' : refs.map((ref) => html`<code>${ref}</code> `)}</td>
        <td class="number">
          ${
            mayChange &&
            pageForm(visit, 'remove_variable', { ...of, environment_variable_id: id }).wrap(false, {
              button: 'Delete',
              kind: 'quiet',
              describedBy: `variable-${id}`,
            })
          }
        </td>
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

async function forgesPart({ visit, of }: Shown): Promise<Html> {
  const forges = await visit.api.get('/forges', { query: of });
  const rows = forges.map(
    ({ provider, url, login, state }) =>
      html`<tr>
        <td>${provider}</td>
        <td><code>${url}</code></td>
        <td>${login}</td>
        <td>${state}</td>
      </tr>`,
  );
  const none = empty('No forges yet', 'Connect one with the API: POST /forges with organisation_id.');
  return section('forges', 'Forges', table('Forges', ['Provider', 'Address', 'Login', 'State'], rows, { none }));
}

async function runnersPart({ visit, of }: Shown): Promise<Html> {
  const runners = await visit.api.get('/organisations/:organisation_id/runners', { params: of });
  const rows = runners.map(
    ({ name, state, version, work }) =>
      html`<tr>
        <td>${name}</td>
        <td>${state}</td>
        <td>${version}</td>
        <td class="number">${work.length}</td>
      </tr>`,
  );
  const none = empty('No runners of its own', 'Builds run on the runners of the server.');
  return section('runners', 'Runners', table('Runners', ['Name', 'State', 'Version', 'Jobs'], rows, { none }));
}

async function auditPart({ visit, of }: Shown): Promise<Html> {
  const { before, after } = cursors(visit);
  const query = { before, after, limit: 20 };
  const entries = await visit.api.list('/organisations/:organisation_id/audit', { params: of, query });
  const rows = entries.items.map(
    ({ created_at: at, action, actor, subject }) =>
      html`<tr>
        <td>${ago(at)}</td>
        <td>${actor?.email ?? '–'}</td>
        <td><code>${action}</code></td>
        <td>${subject.name}</td>
      </tr>`,
  );
  return section(
    'audit',
    'Audit',
    html`${table('Audit', ['When', 'Who', 'What', 'On'], rows)} ${pagination(entries, { path: visit.path, query: {} })}`,
  );
}

const one = page({
  path: `${all}/:organisation_name`,
  showsSecrets: true,
  async show(visit) {
    const organisation = await organisationIn(visit);
    const { name, role } = organisation;
    const shown = { visit, organisation, of: { organisation_id: organisation.id_str } };
    const isOwner = role === 'owner';
    const form = recordForm(visit, 'save', organisationForm, organisation, shown.of);
    return {
      title: name,
      main: html`${backLink(all, 'Organisations')}
        <div class="title">
          <h1>${name}</h1>
          ${isOwner && deletionButton(`${visit.path}/delete`)}
        </div>
        <p class="aside">${organisation.description} You are ${role} here.</p>
        ${await projectsPart(shown)} ${await membersPart(shown)} ${await variablesPart(shown)}
        ${(isOwner || role === 'maintainer') && (await forgesPart(shown))}
        ${isOwner && html`${await runnersPart(shown)} ${await auditPart(shown)}`}
        ${isOwner && form.wrap(form.fields(), { button: 'Save', isCard: true, label: 'Organisation' })}`,
    };
  },
  actions: {
    invite: {
      route: 'POST /organisations/:organisation_id/members',
      done: ({ invitation_url: url, email }, visit) =>
        url === ''
          ? { goTo: `${visit.path}#members`, notice: 'added' }
          : shownOnce({
              title: `Invitation for ${email}`,
              what: 'address',
              secrets: html`<p>Send this address to ${email}. It works once, within a week.</p>
                ${copyable(url, 'invitation')}`,
              next: visit.path,
            }),
    },
    role: { route: 'PUT /organisations/:organisation_id/members/:member_id', done: 'saved' },
    remove: { route: 'DELETE /organisations/:organisation_id/members/:member_id', done: 'deleted' },
    leave: {
      route: 'DELETE /organisations/:organisation_id/members/:member_id',
      done: () => ({ goTo: all, notice: 'deleted' }),
    },
    add_variable: { route: 'POST /organisations/:organisation_id/environment_variables', done: 'added' },
    remove_variable: {
      route: 'DELETE /organisations/:organisation_id/environment_variables/:environment_variable_id',
      done: 'deleted',
    },
    save: {
      route: 'PUT /organisations/:organisation_id',
      done: ({ name }) => ({ goTo: `${all}/${name}`, notice: 'saved' }),
    },
  },
});

const deletion = page({
  path: `${all}/:organisation_name/delete`,
  async show(visit) {
    const { name, id_str: id } = await organisationIn(visit);
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
            ${pageForm(visit, 'delete', { organisation_id: id }).wrap(false, { button: 'Delete', kind: 'danger' })}
            <a class="button" href="${all}/${name}">Keep it</a>
          </div>
        </div>`,
    };
  },
  actions: {
    delete: { route: 'DELETE /organisations/:organisation_id', done: () => ({ goTo: all, notice: 'deleted' }) },
  },
});

export const routes: PageRoute[] = [...list, ...one, ...deletion];
