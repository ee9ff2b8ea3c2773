import { icons, script, stylesheet } from './assets.ts';
import { html, type Html } from './html.ts';
import { iconFor, stateBadge, stateWord } from './states.ts';

/** A page as a handler describes it. */
export interface Page {
  title: string;
  main: Html;
  status?: number;
  /** A small question in the middle, and nothing around it. It runs no scripts. */
  isNarrow?: boolean;
  /** The state of what the page is about: its icon and its title tell it. */
  state?: string;
  /** The project that the page belongs to, and which of the project's tabs it is under. */
  project?: ProjectHead;
  tab?: ProjectTab;
  /** What the page is about: it is brought up to date when something of that changes. */
  live?: Live;
  /** Scripts of `browser/` that it needs beside those of every page. */
  scripts?: readonly string[];
  /** Where a form of the page may lead beside this site, in the words of a content security policy. */
  formTarget?: string | undefined;
  headers?: Record<string, string>;
  /** Whether it may be packed: it shows no secret. */
  isWorthPacking?: boolean;
}

/** What of a project every page of it shows. */
export interface ProjectHead {
  id_str: string;
  name: string;
  build_state: string;
  owned: boolean;
}

export type ProjectTab = 'commits' | 'deploys' | 'settings';

/**
 * `projects`: any project of the viewer; `project:ID`: that one; `logs:ID`: what builds of that project say, too;
 * `dependency:ID`, `dependencies`: a dependency, or any of the viewer's; `clock`: it changes all the time.
 */
export type Live = readonly (
  'projects' | 'dependencies' | 'clock' | `${'project' | 'logs' | 'dependency'}:${string}`
)[];

/** Who the page is shown to. */
export interface Viewer {
  email: string | undefined;
  isOperator: boolean;
  /** What proves that a form was sent from one of our pages. */
  formKey: string;
  path: string;
}

const logo = html`<svg class="logo" viewBox="0 0 32 32" aria-hidden="true" focusable="false">
  <path d="M5 12c4-4 7-4 11 0s7 4 11 0M5 21c4-4 7-4 11 0s7 4 11 0" />
</svg>`;

export function render(page: Page, viewer: Viewer): string {
  const { title, main, state, project, isNarrow = false } = page;
  const { email } = viewer;
  const isInside = email !== undefined && !isNarrow;
  const told = state === undefined ? '' : `${stateWord(state)}: `;
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>${told}${title}${project && ` – ${project.name}`} – Headrace</title>
        <link rel="stylesheet" href="${stylesheet.path}" />
        <link rel="icon" href="${icons[iconFor(state)].path}" />
        ${isInside && scriptTags(page)}
      </head>
      <body class="${isNarrow ? 'narrow' : 'wide'}">
        <a class="skip" href="#main">Skip to the content</a>
        <header>
          <a class="brand" href="/ui/">${logo}<span>Headrace</span></a>
          ${isInside && navigation(email, viewer)}
        </header>
        ${isInside && html`<div id="connection" role="status"></div>`} ${project && projectHeader(project, page.tab)}
        <main id="main">${main}</main>
      </body>
    </html> `.text;
}

function scriptTags({ scripts = [], live = [] }: Page): Html {
  const wanted = ['main', ...scripts].map(script);
  const imported = new Set(wanted.flatMap((one) => [...one.imports]));
  return html`${wanted.map((one) => html`<script type="module" src="${one.path}"></script>`)}
  ${[...imported].map((one) => html`<link rel="modulepreload" href="${one.path}" />`)}
  ${live.length > 0 && html`<meta name="live" content="${live.join(' ')}" />`}`;
}

function navigation(email: string, { formKey, path, isOperator }: Viewer): Html {
  const link = (target: string, text: string): Html =>
    html`<a href="${target}" ${path === target && html`aria-current="page"`}>${text}</a>`;
  return html`<nav aria-label="Site">
    ${link('/ui/', 'Projects')} ${link('/ui/dependencies', 'Dependencies')} ${link('/ui/marketplace', 'Marketplace')}
    ${link('/ui/applications', 'Applications')} ${isOperator && link('/ui/operations', 'Operations')}
    <form method="post" action="/ui/sign-out" class="who">
      ${keyField(formKey)}
      <a class="email" href="/ui/account" ${path === '/ui/account' && html`aria-current="page"`}>${email}</a>
      <button class="quiet">Sign out</button>
    </form>
  </nav>`;
}

const tabs: [ProjectTab, string, string][] = [
  ['commits', '', 'Commits'],
  ['deploys', '/deploys', 'Deploys'],
  ['settings', '/settings', 'Settings'],
];

function projectHeader({ id_str: id, name, build_state: state }: ProjectHead, tab: ProjectTab | undefined): Html {
  return html`<section class="project-head" aria-label="This project">
    <p class="project-name">
      <a href="/ui/projects/${id}" title="${name}">${name}</a>
      <span id="project-state" data-live>${stateBadge(state)}</span>
    </p>
    <nav aria-label="Project" class="tabs">
      ${tabs.map(
        ([key, below, text]) =>
          html`<a href="/ui/projects/${id}${below}" ${key === tab && html`aria-current="true"`}>${text}</a>`,
      )}
    </nav>
  </section>`;
}

/** Stands in every form. */
export function keyField(formKey: string): Html {
  return html`<input type="hidden" name="form_key" value="${formKey}" />`;
}

/** Said aloud by a screen reader when the page comes. */
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
