import { whyNobodyTakes } from '../auth/runner-visits.ts';
import type { Queries } from '../db/open.ts';
import type { UserRow } from '../db/schema.ts';
import { html, type Html } from './html.ts';
import { moment } from './moments.ts';
import { forPeople, notFound, type Place } from './site.ts';

/** A project, and the newest build request in it if there is one. */
interface Seen {
  name: string;
  description: string;
  build_state: string;
  owner_id: bigint;
  commit_ref: string | null;
  request_state: string | null;
  requested_at: bigint | null;
}

function projectsOf(db: Queries, { id, billing }: Readonly<UserRow>): Promise<Seen[]> {
  const visible = db
    .selectFrom('projects as p')
    .leftJoin('build_requests as r', (join) =>
      join.on('r.id', '=', (newest) =>
        newest
          .selectFrom('build_requests as n')
          .select((of) => of.fn.max('n.id').as('id'))
          .whereRef('n.project_id', '=', 'p.id'),
      ),
    )
    .select(['p.name', 'p.description', 'p.build_state', 'p.owner_id'])
    .select(['r.commit_ref', 'r.build_state as request_state', 'r.created_at as requested_at'])
    .where((where) =>
      where.or([
        where('p.owner_id', '=', id),
        where('p.id', 'in', where.selectFrom('collaborators').select('project_id').where('user_id', '=', id)),
      ]),
    )
    .orderBy('p.name');
  // Who does not pay goes on with what others share with them, here as in the API.
  return (billing === 'ok' ? visible : visible.where('p.owner_id', '!=', id)).execute();
}

/** Those whom this person invited and who cannot sign in yet. */
async function withoutPassword(db: Queries, { id }: Readonly<UserRow>): Promise<string[]> {
  const rows = await db
    .selectFrom('projects as p')
    .innerJoin('collaborators as c', 'c.project_id', 'p.id')
    .innerJoin('users as u', 'u.id', 'c.user_id')
    .select('u.email')
    .distinct()
    .where('p.owner_id', '=', id)
    .where('u.password_hash', 'is', null)
    .orderBy('u.email')
    .execute();
  return rows.map(({ email }) => email);
}

function invitedNotice(emails: string[]): Html {
  return html`<p class="card aside">
    Invited, and without a password yet: ${emails.join(', ')}. Whoever runs this server makes the link with which
    somebody sets theirs: <code>headrace admin user password-link</code>.
  </p>`;
}

function state(name: string): Html {
  return html`<span class="state ${name}">${name.replaceAll('_', ' ')}</span>`;
}

function projectItem(project: Seen, person: Readonly<UserRow>): Html {
  const { commit_ref: ref, request_state: requestState, requested_at: requestedAt } = project;
  const hasBuilds = ref !== null && requestState !== null && requestedAt !== null;
  return html`<li>
    <h2>${project.name} ${state(project.build_state)}</h2>
    ${project.description !== '' && html`<p>${project.description}</p>`}
    <p class="aside">
      ${
        hasBuilds
          ? html`Newest build request: <code>${ref}</code>, ${requestState}, ${moment(requestedAt)}.`
          : 'Nothing was built yet.'
      }
      ${project.owner_id !== person.id && 'You collaborate on it.'}
    </p>
  </li>`;
}

const nothingYet = html`<div class="card">
  <p>You have no projects yet.</p>
  <p>
    Projects are made with the API: <a href="/openapi.json">its description</a> says how. The key for it is on the
    <a href="/ui/applications">applications page</a>.
  </p>
</div>`;

const unpaid = html`<p class="notice bad">
  This account is unpaid: what it owns cannot be used. What others share with you goes on.
</p>`;

function waitsInVain(reason: string): Html {
  return html`<p class="notice bad">Builds wait: ${reason}.</p>`;
}

export const places: Place[] = [
  forPeople({
    method: 'GET',
    path: '/ui/',
    async visit({ db, person }) {
      const projects = await projectsOf(db.read, person);
      const waits = projects.find(({ request_state: requestState }) => requestState === 'enqueued');
      const reason = waits && (await whyNobodyTakes(db, waits.owner_id));
      const waiting = await withoutPassword(db.read, person);
      const list = html`<ul class="card rows">
        ${projects.map((project) => projectItem(project, person))}
      </ul>`;
      return {
        title: 'Projects',
        main: html`<h1>Projects</h1>
          ${person.billing !== 'ok' && unpaid} ${reason !== undefined && waitsInVain(reason)}
          ${projects.length === 0 ? nothingYet : list} ${waiting.length > 0 && invitedNotice(waiting)}`,
      };
    },
  }),
  { method: 'GET', path: '/ui', visit: async () => ({ goTo: '/ui/', status: 303 }) },
  { method: 'GET', path: '/ui/*', visit: async () => notFound },
];
