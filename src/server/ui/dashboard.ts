import { longest } from '../../shared/domain/bounds.ts';
import { isAboutIsolation } from '../../shared/domain/isolation.ts';
import type { Dashboard, OwnRequest, ProjectLine } from '../../shared/records/overview.ts';
import { timeSpanText } from './browser/time-words.ts';
import { mendButton } from './forges.ts';
import { pageForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { notice } from './layout.ts';
import { ago, duration, moment } from './moments.ts';
import { page, type PageVisit } from './pages.ts';
import { empty, filterForm, shortSha, subjectOf } from './parts.ts';
import { failingSince } from './project-overview.ts';
import { notFound, type PageRoute } from './site.ts';
import { isUnderWay, stateBadge, stateLink, stateWord } from './states.ts';
import { strip } from './strip.ts';

function invitedNotice(emails: string[]): Html {
  return html`<p class="card aside">
    Invited, without a password: ${emails.join(', ')}. The operator of this server creates a link to set a password:
    <code>headrace admin user password-link</code>.
  </p>`;
}

/** The commit that the state belongs to, and below it a newer build of something else. */
function newest(project: ProjectLine): Html {
  const { id_str: id, state_commit: commit, newest_request: request } = project;
  const path = `/ui/projects/${id}`;
  if (!request) return html`<span class="aside">Nothing was built yet.</span>`;
  const { commit_ref: ref, build_state: state, created_at: at } = request;
  const other = html`<a href="${path}/requests/${request.id_str}"><code>${ref}</code></a
    >, ${stateWord(state)}, ${ago(at)}`;
  if (!commit) return html`<span class="aside">Newest build request: ${other}</span>`;
  const isNewer = request.commit_id_str !== commit.id_str;
  return html`<a class="subject" href="${path}/commits/${commit.id_str}">${subjectOf(commit.message)}</a>
    <span class="aside"
      >${commit.branch !== '' && html`<code>${commit.branch}</code> `}<code>${shortSha(commit.ref)}</code>
      ${commit.scm_author_name}${commit.requested_at !== null && html`, ${ago(commit.requested_at)}`}</span
    >
    ${isNewer && html`<span class="aside">Then ${other}</span>`}`;
}

function chips(project: ProjectLine): Html | false {
  const { id_str: id, approvals, approval_request_id_str: request, approval_deploy_id_str: deploy } = project;
  const { no_runner: reason, no_runner_request_id_str: stuck } = project;
  if (approvals === 0 && reason === '') return false;
  const path = `/ui/projects/${id}`;
  return html`<p class="chips">
    ${
      approvals > 0 &&
      stateLink(
        'held',
        approvals === 1 ? 'waits for approval' : `${approvals} wait for approval`,
        request === '' ? `${path}/deploys/${deploy}` : `${path}/requests/${request}`,
      )
    }
    ${
      reason !== '' &&
      html`${stateLink('warn', 'no runner', `${path}/requests/${stuck}`)} <span class="aside">${reason}</span>`
    }
  </p>`;
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
      ${chips(project)}
    </div>
    <div class="project-newest">${newest(project)}</div>
    <span class="project-took aside">${start !== null && duration(start, isUnderWay(state) ? null : end)}</span>
    <span class="project-strip">${strip(project.last_builds, { branch: project.default_branch, height: 24 })}</span>
  </li>`;
}

function requestedList(requests: readonly OwnRequest[]): Html | false {
  if (requests.length === 0) return false;
  return html`<h2>Requested by you</h2>
    <ul class="card rows compact">
      ${requests.map((request) => {
        const { id_str: id, project_id_str: project, project_name: name, commit_ref: ref, message } = request;
        const { build_state: state, created_at: at, duration_ms: took } = request;
        return html`<li id="requested-${id}" class="requested">
          <span>${stateBadge(state)}</span>
          <a href="/ui/projects/${project}/requests/${id}"
            >${name}: ${message === '' ? html`<code>${ref}</code>` : subjectOf(message)}</a
          >
          <span class="aside"
            >${message !== '' && html`<code>${ref}</code>, `}${ago(at)}${took !== null && `, took ${timeSpanText(took)}`}</span
          >
        </li>`;
      })}
    </ul>`;
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

function slowList(visit: PageVisit, slow: Dashboard['slow_steps']): Html | false {
  if (slow.length === 0) return false;
  return html`<h2>Slower than before</h2>
    <ul class="card acting compact">
      ${slow.map((one) => {
        const { id_str: id, project_id_str: project, suite_id_str: suite, suite_name: name, variant, step } = one;
        const about = `slow-${id}`;
        const path = `/ui/projects/${project}`;
        return html`<li>
          <span id="${about}"
            ><a href="${path}">${one.project_name}</a>: step <code>${step}</code> of
            <a href="${path}/settings/suites/${suite}#figures">${name}${variant !== '' && ` (${variant})`}</a> on
            <code>${one.branch}</code> is slow since
            <a href="${path}/commits/${one.commit_id_str}"><code>${shortSha(one.commit_ref)}</code></a>
            ${subjectOf(one.message)}. Before, it usually took ${timeSpanText(one.median_ms)}.</span
          >
          ${pageForm(visit, 'quiet', { project_id: project, suite_id: suite, step }).wrap(false, {
            button: 'Quiet',
            kind: 'plain',
            describedBy: about,
          })}
        </li>`;
      })}
    </ul>`;
}

function stoppedList(stopped: Dashboard['reuse_stopped']): Html | false {
  if (stopped.length === 0) return false;
  return html`<h2>Not reused any more</h2>
    <ul class="card compact">
      ${stopped.map(({ project_id_str: project, suite_id_str: suite, suite_name: name, ...one }) => {
        const path = `/ui/projects/${project}`;
        return html`<li>
          <a href="${path}">${one.project_name}</a>:
          ${suite === '' ? name : html`<a href="${path}/settings/suites/${suite}">${name}</a>`} is not reused any more,
          because <a href="${path}/builds/${one.build_id_str}">a build</a> failed on the inputs of builds that passed.
          The suite depends on something else too. When that is mended, switch its reuse on in its settings.
        </li>`;
      })}
    </ul>`;
}

const nothingYet = empty(
  'No projects yet',
  'A project builds, tests and deploys the commits of a git repository. Create one with “New project”.',
);

export const routes: PageRoute[] = [
  ...page({
    path: '/ui/',
    async show(visit) {
      const { api, person, queryText } = visit;
      const filter = queryText('filter')
        .replaceAll(/\p{Cc}/gu, ' ')
        .slice(0, longest.filter);
      const sort = queryText('sort') === 'name' ? 'name' : 'failed';
      const shown = await api.get('/dashboard', { query: { filter, sort } });
      const { projects, all, found, waiting_reason: reason, invited, requested, offers, ending_tokens: ending } = shown;
      const { slow_steps: slow, reuse_stopped: stopped } = shown;
      const isAll = found === projects.length;
      const beside = sort === 'name' ? { sort } : {};
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
            notice(
              'bad',
              'This account is unpaid: its projects and dependencies cannot be used. Projects of other users still work.',
            )
          }
          ${offers.map((offer) => offerNotice(visit, offer))} ${ending.length > 0 && endingNotice(ending)}
          <div id="waiting" data-live>
            ${
              // All pages already show this reason to operators.
              reason !== '' &&
              !(person.operator === 1 && isAboutIsolation(reason)) &&
              notice('bad', `Builds wait: ${reason}.`)
            }
          </div>
          <div id="incomplete" data-live>${await incompleteList(visit, projects)}</div>
          <section id="stopped" aria-label="Not reused any more" data-live>${stoppedList(stopped)}</section>
          <section id="slow" aria-label="Slower than before" data-live>${slowList(visit, slow)}</section>
          <section id="requested" aria-label="Requested by you" data-live>${requestedList(requested)}</section>
          ${
            all === 0
              ? nothingYet
              : html`<ul class="projects" id="projects" data-filtered="${filter.trim().toLowerCase()}" data-live>
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
      quiet: { route: 'POST /projects/:project_id/suites/:suite_id/quiet', done: 'quieted' },
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

function endingNotice(tokens: Dashboard['ending_tokens']): Html {
  return html`<p class="notice">
    Programs that use these <a href="/ui/account/tokens">tokens</a> of yours are refused when they end:
    ${tokens.map(({ name, expires_at: end }, at) => html`${at > 0 && ', '}<strong>${name}</strong>, on ${moment(end)}`)}.
  </p>`;
}

type Sort = 'name' | 'failed';

const sorts: [Sort, string][] = [
  ['failed', 'Failed first'],
  ['name', 'By name'],
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
