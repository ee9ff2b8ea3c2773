import { longest } from '../../shared/domain/bounds.ts';
import { isAboutIsolation } from '../../shared/domain/isolation.ts';
import type { Dashboard, ProjectLine } from '../../shared/records/overview.ts';
import { mendButton } from './forges.ts';
import { pageForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { notice } from './layout.ts';
import { ago, duration } from './moments.ts';
import { page, type PageVisit } from './pages.ts';
import { empty, filterForm, subjectOf } from './parts.ts';
import { failingSince } from './project-overview.ts';
import { notFound, type PageRoute } from './site.ts';
import { isUnderWay, lookOf, stateBadge, stateWord } from './states.ts';

function invitedNotice(emails: string[]): Html {
  return html`<p class="card aside">
    Invited, and without a password yet: ${emails.join(', ')}. The operator of this server makes the link with which
    somebody sets theirs: <code>headrace admin user password-link</code>.
  </p>`;
}

function strip(commits: readonly string[]): Html | false {
  if (commits.length === 0) return false;
  const counts = Map.groupBy(commits, stateWord);
  const text = Array.from(counts, ([word, some]) => `${some.length} ${word}`).join(', ');
  const label = `Last ${commits.length} commits, oldest first: ${text}`;
  const bars = commits.map((state) => html`<i class="${lookOf(state)}"></i>`);
  return html`<span class="bars" role="img" aria-label="${label}" title="${text}">${bars}</span>`;
}

function newest({ newest_commit: commit, newest_request: request }: ProjectLine): Html {
  if (!request) return html`<span class="aside">Nothing was built yet.</span>`;
  const { commit_ref: ref, build_state: state, created_at: at } = request;
  if (!commit) {
    return html`<span class="aside">Newest build request: <code>${ref}</code>, ${stateWord(state)}, ${ago(at)}</span>`;
  }
  return html`<span class="subject">${subjectOf(commit.message)}</span>
    <span class="aside">${commit.scm_author_name}, ${ago(at)}</span>`;
}

function projectItem(project: ProjectLine): Html {
  const { id, name, description, build_state: state, started_at: start, finished_at: end, failed_since: red } = project;
  return html`<li id="project-${id}" class="project" data-name="${name.toLowerCase()}">
    <span class="project-state">${stateBadge(state)}</span>
    <div class="project-title">
      <h2><a href="/ui/projects/${id}">${name}</a></h2>
      <p class="aside description">
        ${red !== null && failingSince(red)} ${description}${!project.owned && ' You collaborate on it.'}
      </p>
    </div>
    <p class="project-newest">${newest(project)}</p>
    <span class="project-took aside">${start !== null && duration(start, isUnderWay(state) ? null : end)}</span>
    <span class="project-strip">${strip(project.last_states)}</span>
  </li>`;
}

async function incompleteList(visit: PageVisit, projects: readonly ProjectLine[]): Promise<Html | false> {
  const lacking = projects.filter(({ forge_state: state }) => state === 'incomplete');
  if (lacking.length === 0) return false;
  const forges = lacking.some(({ owned }) => owned) ? await visit.api.get('/forges') : [];
  const items = lacking.map(({ id_str: id, name, owned, forge_state_reason: reason, forge_id_str: forgeId }) => {
    const about = `incomplete-${id}`;
    const forge = forges.find(({ id_str: one }) => one === forgeId);
    return html`<li>
      <span id="${about}"
        >${stateBadge('incomplete')} <a href="/ui/projects/${id}">${name}</a> is incomplete at its forge.
        ${reason}</span
      >
      ${owned && forge && mendButton(visit, { project_id: id, forge, describedBy: about })}
    </li>`;
  });
  return html`<ul class="card acting compact">
    ${items}
  </ul>`;
}

const nothingYet = empty(
  'No projects yet',
  'A project is a git repository and what is done with its commits. Make the first one with “New project”.',
);

export const routes: PageRoute[] = [
  ...page({
    path: '/ui/',
    async show(visit) {
      const { api, person, queryText } = visit;
      const filter = queryText('filter')
        .replaceAll(/\p{Cc}/gu, ' ')
        .slice(0, longest.filter);
      const sort = queryText('sort') === 'failed' ? 'failed' : 'name';
      const shown = await api.get('/dashboard', { query: { filter, sort } });
      const { projects, all, found, waiting_reason: reason, invited, offers } = shown;
      const isAll = found === projects.length;
      const beside = sort === 'failed' ? { sort } : {};
      const filtered = { name: 'filter', label: 'Filter', value: filter, most: longest.filter, isWhole: isAll, beside };
      const isOwner = person.kind !== 'collaborator';
      return {
        title: 'Projects',
        live: ['projects'],
        main: html`<div class="title">
            <h1>Projects</h1>
            <div class="row">
              ${all > 0 && html`${sorting(sort, filter)} ${filterForm('/ui/', filtered)}`}
              ${isOwner && html`<a class="button main" href="/ui/projects/new">New project</a>`}
            </div>
          </div>
          ${
            person.billing !== 'ok' &&
            notice('bad', 'This account is unpaid: what it owns cannot be used. What others share with you goes on.')
          }
          ${offers.map((offer) => offerNotice(visit, offer))}
          <div id="waiting" data-live>
            ${
              // All pages already show this reason to operators.
              reason !== '' &&
              !(person.operator === 1 && isAboutIsolation(reason)) &&
              notice('bad', `Builds wait: ${reason}.`)
            }
          </div>
          <div id="incomplete" data-live>${await incompleteList(visit, projects)}</div>
          ${
            all === 0
              ? nothingYet
              : html`<ul class="projects" id="projects" data-live>
                    ${projects.map(projectItem)}
                  </ul>
                  <p class="aside" id="none-fit" ${projects.length > 0 && html`hidden`}>
                    No project has this in its name.
                  </p>
                  ${!isAll && html`<p class="aside">${projects.length} of ${found} projects. The filter finds the others.</p>`}`
          }
          ${invited.length > 0 && invitedNotice(invited)}`,
      };
    },
    actions: {
      accept: {
        route: 'POST /projects/:project_id/accept',
        done: ({ id_str: id }) => ({ goTo: `/ui/projects/${id}` }),
      },
      connect: { route: 'POST /projects/:project_id/connect', done: 'mended' },
    },
  }),
  { method: 'GET', path: '/ui', visit: async () => ({ goTo: '/ui/', status: 303 }) },
  { method: 'GET', path: '/ui/*', visit: async () => notFound },
];

function offerNotice(visit: PageVisit, { project_id_str: id, name, email }: Dashboard['offers'][number]): Html {
  const about = `offer-${id}`;
  return html`<div class="notice">
    <p id="${about}">
      ${email} hands the project <strong>${name}</strong> over to you. Its builds then count as yours.
    </p>
    ${pageForm(visit, 'accept', { project_id: id }).wrap(false, { button: 'Accept', describedBy: about })}
  </div>`;
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
