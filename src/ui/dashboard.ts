import { whyNobodyTakes } from '../auth/runner-visits.ts';
import type { Queries } from '../db/open.ts';
import type { UserRow } from '../db/schema.ts';
import { dashboardRows, type DashboardRow } from './dashboard-rows.ts';
import { html, type Html } from './html.ts';
import { notice } from './layout.ts';
import { ago, duration } from './moments.ts';
import { page } from './pages.ts';
import { empty, subjectOf } from './parts.ts';
import { failingSince } from './project-overview.ts';
import { notFound, type Place } from './site.ts';
import { isUnderWay, lookOf, stateBadge, stateWord } from './states.ts';

/** Users whom this user invited and who cannot sign in yet. */
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
    Invited, and without a password yet: ${emails.join(', ')}. The operator of this server makes the link with which
    somebody sets theirs: <code>headrace admin user password-link</code>.
  </p>`;
}

/** One bar for each of the last commits. A screen reader reads how many of each state there are. */
function strip(commits: DashboardRow['strip']): Html | false {
  if (commits.length === 0) return false;
  const counts = Map.groupBy(commits, stateWord);
  const words = Array.from(counts, ([word, some]) => `${some.length} ${word}`).join(', ');
  const label = `Last ${commits.length} commits, oldest first: ${words}`;
  const bars = commits.map((state) => html`<i class="${lookOf(state)}"></i>`);
  return html`<span class="bars" role="img" aria-label="${label}" title="${words}">${bars}</span>`;
}

function newest(project: DashboardRow): Html {
  const { commit_id: commit, message, author, commit_ref: ref, request_state: state, requested_at: at } = project;
  if (ref === null || state === null || at === null) return html`<span class="aside">Nothing was built yet.</span>`;
  if (commit === null || message === null) {
    return html`<span class="aside">Newest build request: <code>${ref}</code>, ${stateWord(state)}, ${ago(at)}</span>`;
  }
  return html`<span class="subject">${subjectOf(message)}</span>
    <span class="aside">${author ?? ''}, ${ago(at)}</span>`;
}

function projectItem(project: DashboardRow, person: Readonly<UserRow>): Html {
  const { id, name, description, build_state: state, started_at: start, finished_at: end, failed_since: red } = project;
  return html`<li id="project-${id}" class="project" data-name="${name.toLowerCase()}">
    <span class="project-state">${stateBadge(state)}</span>
    <div class="project-title">
      <h2><a href="/ui/projects/${id}">${name}</a></h2>
      <p class="aside description">
        ${red !== null && failingSince(red)}
        ${description}${project.owner_id !== person.id && ' You collaborate on it.'}
      </p>
    </div>
    <p class="project-newest">${newest(project)}</p>
    <span class="project-took aside">${start !== null && duration(start, isUnderWay(state) ? null : end)}</span>
    <span class="project-strip">${strip(project.strip)}</span>
  </li>`;
}

const nothingYet = empty(
  'No projects yet',
  'A project is a git repository and what is done with its commits. Make the first one with “New project”.',
);

export const places: Place[] = [
  ...page({
    path: '/ui/',
    async show({ db, person, queryText }) {
      const wanted = queryText('filter').trim().toLowerCase();
      const sort = queryText('sort') === 'failed' ? 'failed' : 'name';
      const { shown, count, fitting } = await dashboardRows(db.read, person, { wanted, sort });
      const [failing, others] = sort === 'name' ? [[], shown] : divided(shown);
      const projects = [...failing, ...others];
      const isAll = fitting === shown.length;
      const waits = shown.find(({ request_state: state }) => state === 'enqueued');
      const reason = waits && (await whyNobodyTakes(db, waits.owner_id));
      const invited = await withoutPassword(db.read, person);
      const isOwner = person.kind !== 'collaborator';
      return {
        title: 'Projects',
        live: ['projects'],
        main: html`<div class="title">
            <h1>Projects</h1>
            <div class="actions">
              ${count > 0 && html`${sorting(sort, queryText('filter'))} ${filterForm(queryText('filter'), sort, isAll)}`}
              ${isOwner && html`<a class="button main" href="/ui/projects/new">New project</a>`}
            </div>
          </div>
          ${
            person.billing !== 'ok' &&
            notice('bad', 'This account is unpaid: what it owns cannot be used. What others share with you goes on.')
          }
          <div id="waiting" data-live>${reason !== undefined && notice('bad', `Builds wait: ${reason}.`)}</div>
          ${
            count === 0
              ? nothingYet
              : html`<ul class="projects" id="projects" data-live>
                    ${projects.map((project) => projectItem(project, person))}
                  </ul>
                  <p class="aside" id="none-fit" ${shown.length > 0 && html`hidden`}>
                    No project has this in its name.
                  </p>
                  ${!isAll && html`<p class="aside">${shown.length} of ${fitting} projects. The filter finds the others.</p>`}`
          }
          ${invited.length > 0 && invitedNotice(invited)}`,
      };
    },
  }),
  { method: 'GET', path: '/ui', visit: async () => ({ goTo: '/ui/', status: 303 }) },
  { method: 'GET', path: '/ui/*', visit: async () => notFound },
];

/** Those whose default branch fails, and the others. Both stay in the order of their names. */
function divided(projects: readonly DashboardRow[]): [DashboardRow[], DashboardRow[]] {
  const { failing = [], others = [] } = Object.groupBy(projects, ({ failed_since: red }) =>
    red === null ? 'others' : 'failing',
  );
  return [failing, others];
}

type Sort = 'name' | 'failed';

const sorts: [Sort, string][] = [
  ['name', 'By name'],
  ['failed', 'Failed first'],
];

function sorting(chosen: Sort, filter: string): Html {
  return html`<nav aria-label="Sort" class="sorting">
    <span class="aside">Sort</span>
    ${sorts.map(([sort, text]) => {
      const search = new URLSearchParams({ sort, ...(filter !== '' && { filter }) });
      return html`<a href="/ui/?${search.toString()}" ${sort === chosen && html`aria-current="true"`}>${text}</a>`;
    })}
  </nav>`;
}

/** Where all projects are on the page, a script filters them while the user types. */
function filterForm(value: string, sort: Sort, isAll: boolean): Html {
  return html`<form method="get" action="/ui/" role="search" class="filter">
    ${sort === 'failed' && html`<input type="hidden" name="sort" value="${sort}" />`}
    <label for="filter">Filter</label>
    <input id="filter" name="filter" type="search" value="${value}" autocomplete="off" ${isAll && html`data-filter`} />
  </form>`;
}
