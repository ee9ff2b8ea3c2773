import type { Project } from '../../shared/records/project.ts';
import { addressOf } from './assets.ts';
import type { Organisation } from '../auth/organisations.ts';
import { html, type Html } from './html.ts';
import { iconFor, stateBadge, stateWord } from './states.ts';

export interface Page {
  title: string;
  main: Html;
  status?: number;
  /** Shows a small question in the middle of the window, without menus and scripts. */
  isNarrow?: boolean;
  isFilled?: boolean;
  state?: string;
  project?: ProjectHead;
  tab?: ProjectTab;
  /** The visitor only reads a public project. */
  isOutside?: boolean;
  /** The way from the project's page to this page. The last one is this page itself and has no address. */
  crumbs?: readonly Crumb[];
  searched?: string;
  live?: Live;
  hasTerminal?: boolean;
  /** The page uses passkeys, which need a script, also on a narrow page. */
  hasPasskeys?: boolean;
  /** The site whose documents the page shows in a frame, as in a content security policy. */
  frames?: string;
  /** Other sites that the page's forms may send the user to, as in a content security policy. */
  formTarget?: string | undefined;
  headers?: Record<string, string>;
  /** True only for pages without secrets. */
  isWorthPacking?: boolean;
}

export interface Crumb {
  text: string;
  href?: string;
}

export type ProjectHead = Pick<Project, 'id_str' | 'name' | 'build_state' | 'owned' | 'organisation_id_str'>;

export type ProjectTab = 'commits' | 'tests' | 'deploys' | 'settings';

/** `logs:ID` includes new output of that project's builds. `clock` always changes. */
export type Live = readonly (
  | 'projects'
  | 'dependencies'
  | 'clock'
  | `${'project' | 'logs' | 'build' | 'dependency'}:${string}`
)[];

export interface Viewer {
  /** Undefined if the visitor is not signed in. */
  email: string | undefined;
  hasPublicProjects: boolean;
  /** Those that the user is a member of. */
  organisations?: readonly Pick<Organisation, 'id' | 'name'>[] | undefined;
  isOperator: boolean;
  /** Collaborators have no dependencies, and do not see the marketplace. */
  isCollaborator: boolean;
  /** For operators: the reason why the server's own runner does not start. */
  trouble?: string | undefined;
  /** Proves that a form was sent from one of our pages. */
  formKey: string;
  path: string;
}

const logo = html`<svg class="logo" viewBox="0 0 32 32" aria-hidden="true" focusable="false">
  <path d="M5 12c4-4 7-4 11 0s7 4 11 0M5 21c4-4 7-4 11 0s7 4 11 0" />
</svg>`;

/** The browser runs only scripts with the `nonce`. */
export function render(page: Page, viewer: Viewer, nonce?: string): string {
  const { title, main, state, project, isNarrow = false, isFilled = false } = page;
  const { email, isOperator } = viewer;
  const prefix = state === undefined ? '' : `${stateWord(state)}: `;
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>${prefix}${title}${project && ` – ${project.name}`} &ndash; Headrace</title>
        <link rel="stylesheet" href="${addressOf('style.css')}" />
        <link rel="icon" href="${addressOf(`icon-${iconFor(state)}.svg`)}" />
        ${nonce !== undefined && scriptTags(page, nonce)}
      </head>
      <body class="${isNarrow ? 'narrow' : 'wide'} ${isFilled && 'filled'}">
        <a class="skip" href="#main">Skip to the content</a>
        <header>
          <a class="brand" href="/ui/">${logo}<span>Headrace</span></a>
          ${!isNarrow && (email === undefined ? visitorNavigation(viewer) : navigation(email, viewer, page))}
        </header>
        ${!isNarrow && html`<div id="connection" role="status"></div>`} ${project && projectHeader(project, page)}
        ${!isNarrow && isOperator && troubleOf(viewer)}
        <main id="main">${main}</main>
      </body>
    </html> `.text;
}

function troubleOf({ trouble, formKey }: Viewer): Html {
  return html`<div id="runner-trouble" data-live>
    ${
      trouble !== undefined &&
      html`<form method="post" action="/ui/operations" class="notice bad" role="alert">
        ${keyField(formKey)}<input type="hidden" name="do" value="look" />
        <p><strong>No build runs:</strong> ${trouble}</p>
        <button>Look again</button>
      </form>`
    }
  </div>`;
}

function scriptTags(
  { live = [], hasTerminal = false, hasPasskeys = false, isNarrow = false, isOutside = false, project }: Page,
  nonce: string,
): Html {
  const passkeys =
    hasPasskeys && html`<script type="module" nonce="${nonce}" src="${addressOf('passkeys.js')}"></script>`;
  if (isNarrow) return html`${passkeys}`;
  // Changes of public projects are no part of the visitor's own.
  const changes = isOutside && project ? `/ui/data/projects/${project.id_str}/changes` : '/ui/data/changes';
  return html`${passkeys}
    <script type="module" nonce="${nonce}" src="${addressOf('main.js')}"></script>
    ${hasTerminal && html`<link rel="stylesheet" href="${addressOf('terminal.css')}" />`}
    ${live.length > 0 && html`<meta name="live" content="${live.join(' ')}" data-changes="${changes}" data-worker="${addressOf('changes-worker.js')}" />`}`;
}

function linksFrom(path: string) {
  return (target: string, text: string): Html =>
    html`<a href="${target}" ${path === target && html`aria-current="page"`}>${text}</a>`;
}

function visitorNavigation({ path }: Viewer): Html {
  const signIn = `/ui/sign-in?${new URLSearchParams({ return: path }).toString()}`;
  return html`<nav aria-label="Site" class="short">
    ${linksFrom(path)('/ui/explore', 'Explore')} <a class="button quiet" href="${signIn}">Sign in</a>
  </nav>`;
}

const organisationsPath = '/ui/organisations';

/** Between one's own account, the organisations and what is public. It opens without a script. */
function organisationSwitch({ path, organisations = [], hasPublicProjects }: Viewer, { project }: Page): Html {
  const link = linksFrom(path);
  const current = organisations.find(
    ({ id, name }) =>
      `${path}/`.startsWith(`${organisationsPath}/${name}/`) || String(id) === project?.organisation_id_str,
  );
  return html`<details class="switch">
    <summary>${current ? html`<span class="switch-name">${current.name}</span>` : 'Organisations'}</summary>
    <ul class="card">
      <li>${link('/ui/', 'Your dashboard')}</li>
      ${organisations.slice(0, mostInSwitch).map(({ name }) => html`<li>${link(`${organisationsPath}/${name}`, name)}</li>`)}
      <li>${link(organisationsPath, 'All organisations')}</li>
      ${hasPublicProjects && html`<li>${link('/ui/explore', 'Public projects')}</li>`}
    </ul>
  </details>`;
}

const mostInSwitch = 20;

function navigation(email: string, viewer: Viewer, page: Page): Html {
  const { searched = '' } = page;
  const { formKey, path, isOperator, isCollaborator } = viewer;
  const link = linksFrom(path);
  // On a narrow screen, the menu shows and hides the navigation after it.
  return html`<details class="menu">
      <summary class="button quiet">Menu</summary>
    </details>
    <nav aria-label="Site">
      ${link('/ui/', 'Projects')} ${organisationSwitch(viewer, page)}
      ${!isCollaborator && html`${link('/ui/dependencies', 'Dependencies')} ${link('/ui/marketplace', 'Marketplace')}`}
      ${isOperator && link('/ui/operations', 'Operations')}
      <form method="get" action="/ui/search" role="search" aria-label="Everything" id="search" class="search">
        <input
          name="q"
          type="search"
          value="${searched}"
          aria-label="Search"
          placeholder="Search"
          autocomplete="off"
          maxlength="200"
        />
      </form>
      <form method="post" action="/ui/sign-out" class="who">
        ${keyField(formKey)}
        <a class="email" href="/ui/account" ${path === '/ui/account' && html`aria-current="page"`}>${email}</a>
        <button class="quiet">Sign out</button>
      </form>
    </nav>`;
}

const tabs: [ProjectTab, string, string][] = [
  ['commits', '', 'Commits'],
  ['tests', '/tests', 'Tests'],
  ['deploys', '/deploys', 'Deploys'],
  ['settings', '/settings', 'Settings'],
];

const publicTabs: readonly ProjectTab[] = ['commits', 'tests'];

function projectHeader({ id_str: id, name, build_state: state }: ProjectHead, page: Page): Html {
  const { tab, crumbs = [], isOutside = false } = page;
  return html`<section class="project-head" aria-label="This project">
    <nav aria-label="Breadcrumb" class="crumbs">
      <ol>
        <li class="project-name">
          <a href="/ui/projects/${id}" title="${name}">${name}</a>
          <span id="project-state" data-live>${stateBadge(state)}</span>
        </li>
        ${crumbs.map(
          ({ text, href }) =>
            html`<li>
              ${
                href === undefined
                  ? html`<span aria-current="page">${text}</span>`
                  : html`<a href="${href}">${text}</a>`
              }
            </li>`,
        )}
      </ol>
    </nav>
    <nav aria-label="Project" class="tabs">
      ${tabs
        .filter(([key]) => !isOutside || publicTabs.includes(key))
        .map(
          ([key, below, text]) =>
            html`<a href="/ui/projects/${id}${below}" ${key === tab && html`aria-current="true"`}>${text}</a>`,
        )}
    </nav>
  </section>`;
}

export function keyField(formKey: string): Html {
  return html`<input type="hidden" name="form_key" value="${formKey}" />`;
}

/** A message that screen readers announce when the page loads. */
export function notice(kind: 'good' | 'bad', text: string | Html): Html {
  return html`<p class="notice ${kind}" role="${kind === 'bad' ? 'alert' : 'status'}">${text}</p>`;
}

export function problem(status: number, title: string, text: string): Page {
  return {
    status,
    title,
    isNarrow: true,
    main: html`<div class="card">
      <h1>${title}</h1>
      <p>${text}</p>
      <p><a href="/ui/">Go to the start page</a></p>
    </div>`,
  };
}
