import { includes } from '../auth/roles.ts';
import { ownFiles } from '../../shared/domain/workflow-files.ts';
import { forgeProviders, type ForgeProvider } from '../../shared/domain/forge-providers.ts';
import { suggestedSuite } from '../../shared/domain/suggested-suite.ts';
import { groupOf } from '../../shared/records/raw.ts';
import type { Overview } from '../../shared/records/overview.ts';
import type { Project } from '../../shared/records/project.ts';
import { suiteFields } from '../../shared/records/suite.ts';
import { isOpen } from './addresses.ts';
import { fieldTable } from './controls.ts';
import { hidden, pageForm, recordForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { notice } from './layout.ts';
import { steps } from './new-project.ts';
import { copyable, lines } from './parts.ts';
import { projectPage, type ProjectVisit } from './project-pages.ts';
import { buttonTo } from './resource-pages.ts';
import type { PageRoute } from './site.ts';

/** Steps 2 and 3 of a new project. The key is installed by a connected forge, or else by the user. */

function whereItGoes({ repository_url: url }: Project): Html {
  const [, host = '', path = ''] = /^[^@]*@([^:]+):(.+?)(?:\.git)?\/?$/.exec(url) ?? [];
  const at = (name: string): string => `https://${host}/${path.replace(/^\/+/, '')}${name}`;
  return html`<ul class="hosts">
    ${Object.values<ForgeProvider>(forgeProviders).map(
      ({ name, words, key: { page, menus, note = '' } }) =>
        html`<li>
          <b>${name}:</b> ${menus.slice(0, -1).map((menu) => html`${menu} &rarr; `)}<b>${menus.at(-1)}</b>. ${note}
          ${words.test(host) && html`<a href="${at(page)}" rel="noreferrer" target="_blank">Open that page</a>`}
        </li>`,
    )}
  </ul>`;
}

function keyOf(project: Project): Html {
  return html`<h2 id="key">The key</h2>
    <p>Headrace fetches <code>${project.clone_url}</code> with a key of its own. Install it there:</p>
    ${copyable(project.ssh_public_key, 'public-key')} ${whereItGoes(project)}`;
}

function connectionOf(project: Project): Html {
  return html`<h2 id="key">The connection</h2>
    <p>Headrace fetches <code>${project.clone_url}</code> over HTTPS. That needs no key.</p>`;
}

function seen(check: Overview['last_check']): Html | false {
  if (!check) return false;
  const { connected, message, default_branch: branch } = check;
  return notice(
    connected ? 'good' : 'bad',
    html`${lines(message)}${connected && branch !== null && html`Its default branch is <code>${branch}</code>.`}`,
  );
}

function connectedOf(project: Project): Html {
  const { id_str: id, clone_url: url, forge_repository: name, forge_state_reason: reason } = project;
  return html`<h2 id="key">The connection</h2>
    <p>
      Headrace fetches <code>${url}</code>. What that needs is at the forge of <code>${name}</code>: the key, the hook
      and the statuses of this project. ${reason === '' && 'Nothing has to be installed.'}
    </p>
    ${
      reason !== '' &&
      notice('bad', html`${reason} <a href="/ui/projects/${id}/settings#forge-title">Fix it in the settings</a>`)
    }`;
}

/** Another CI's files, or the repository's own file, which already says what is built. */
function importOf({ project, projectPath, path, role }: ProjectVisit, check: Overview['last_check']): Html | false {
  if (!check?.connected || !includes(role, 'maintainer')) return false;
  const own = ownFiles.find((name) => check.files.includes(name));
  if (own === undefined && check.workflows.length === 0) return false;
  const shown = check.workflows.slice(0, mostNamed);
  const rest = check.workflows.length - shown.length;
  return html`<section class="card" aria-labelledby="import">
    <h2 id="import">Files of another CI</h2>
    ${
      own === undefined
        ? html`<p>
              The repository has
              ${shown.map((name, at) => html`${at > 0 && ', '}<code>${name}</code>`)}${rest > 0 && ` and ${rest} more`}.
              Headrace can translate that into suites. You see them first.
            </p>
            ${buttonTo(`${path}/import`, { button: 'Import', kind: 'plain' })}`
        : html`<p>
            The repository has a <code>${own}</code>, so nothing has to be imported.
            ${
              project.config_file === own
                ? 'Each commit is built by it.'
                : html`To build each commit by it, set it as <i>Configuration file</i> in the
                    <a href="${projectPath}/settings">settings</a>.`
            }
          </p>`
    }
  </section>`;
}

/** Files on the page; the import has all of them. */
const mostNamed = 5;

const firstSuiteForm = fieldTable(suiteFields, {
  name: { label: 'Name' },
  command: { label: 'Command', required: true, isCode: true, rows: 3 },
});

async function setupPage(visit: ProjectVisit) {
  const { project, api } = visit;
  const { last_check: check } = await api.get('/projects/:project_id/overview');
  const suggestion = suggestedSuite(check?.files ?? []);
  const [connection, suite] = [pageForm(visit, 'check'), recordForm(visit, 'create', firstSuiteForm, suggestion)];
  const branch = check?.default_branch ?? 'HEAD';
  const isConnected = project.forge_state !== 'none';
  return {
    title: 'Set up',
    main: html`<h1>Set up this project</h1>
      ${steps(check?.connected ? 3 : 2, isConnected || isOpen(project) ? undefined : 'Key')}
      <section class="card" aria-labelledby="key">
        ${isConnected ? connectedOf(project) : isOpen(project) ? connectionOf(project) : keyOf(project)}
        <div id="connection-seen">${seen(check)}</div>
        ${connection.wrap(false, { button: 'Check connection', kind: check?.connected ? 'plain' : 'main' })}
      </section>
      ${importOf(visit, check)}
      <section class="card" aria-labelledby="suite">
        <h2 id="suite">The first suite</h2>
        <p>
          A suite is a command that is run on every commit that is built, in a sandbox of its own.
          ${suggestion.why !== undefined && html`The repository holds <code>${suggestion.why}</code>, so this may do:`}
        </p>
        ${suite.wrap(html`${suite.fields()} ${hidden('commit_ref', branch)}`, {
          button: 'Create suite and run',
          label: 'First suite',
          kind: check?.connected ? 'main' : 'plain',
        })}
      </section>
      <p><a href="${visit.projectPath}">Do this later</a></p>`,
  };
}

export const routes: PageRoute[] = projectPage({
  path: '/setup',
  tab: 'commits',
  show: setupPage,
  actions: {
    check: {
      route: 'POST /projects/:project_id/check_connection',
      done: (_, visit) => ({ goTo: `${visit.path}#key` }),
    },
    create: {
      route: 'POST /projects/:project_id/suites',
      fields: ({ name = '', command = '' }) => groupOf({ name, command }),
      // The branch is built next, as with `Run build`.
      async done(_, { api, formText, param }) {
        const body = groupOf({ commit_ref: formText('commit_ref') || 'HEAD' });
        const request = await api.call('POST /projects/:project_id/build_requests', { body });
        return { goTo: `/ui/projects/${param('project_id')}/requests/${request.id_str}` };
      },
    },
  },
});
