import type { ErrorCode } from '../../shared/errors.ts';
import type { Project } from '../../shared/records/project.ts';
import { html, type Html } from './html.ts';
import type { Page, ProjectTab } from './layout.ts';
import { pageForm } from './forms.ts';
import { page, type DeletionName, type PageDefinition, type PageVisit } from './pages.ts';
import type { PageRoute } from './site.ts';

export type ProjectVisit = PageVisit & { project: Project; projectPath: string };

interface ProjectPage extends Omit<PageDefinition, 'show'> {
  path: string;
  tab: ProjectTab;
  show: (visit: ProjectVisit) => Promise<Page>;
}

/** Users without access to the project get the page for a missing record. */
export function projectPage({ path, tab, show, ...rest }: ProjectPage): PageRoute[] {
  return page({
    ...rest,
    path: `/ui/projects/:project_id${path}`,
    async show(visit) {
      const project = await visit.api.get('/projects/:project_id');
      const projectPath = `/ui/projects/${project.id_str}`;
      const live = [`project:${project.id_str}`] as const;
      return { live, ...(await show(Object.assign(visit, { project, projectPath }))), project, tab };
    },
  });
}

interface Confirmation {
  path: string;
  route: DeletionName;
  /** The record, and everything deleted with it. */
  what: (visit: ProjectVisit) => Promise<{ title: string; goes: Html }>;
  /** The page before, and also the next one unless `next` is set. */
  back: (visit: PageVisit) => string;
  next?: (visit: PageVisit) => string;
  refusals?: Partial<Record<ErrorCode, string>>;
}

/** Asks once, and lists everything that is deleted. The button here is a form with GET. A refusal is shown here. */
export function deletionPage({ path, route, what, back, next = back, refusals }: Confirmation): PageRoute[] {
  return projectPage({
    path: `/settings${path}`,
    tab: 'settings',
    async show(visit) {
      await visit.api.admit(route);
      const { title, goes } = await what(visit);
      return { title, main: confirmation(visit, { title, goes, back: back(visit) }) };
    },
    actions: {
      delete: {
        route,
        done: (_, visit) => ({ goTo: next(visit), notice: 'deleted' }),
        ...(refusals && { refusals }),
      },
    },
  });
}

export function confirmation(
  visit: PageVisit,
  { title, goes, back, button = 'Delete' }: { title: string; goes: Html; back: string; button?: string },
): Html {
  return html`<h1>${title}</h1>
    <div class="card confirm">
      ${goes}
      <p>This cannot be undone.</p>
      <div class="choice">
        ${pageForm(visit, 'delete').wrap(html``, { button, kind: 'danger' })}
        <a class="button" href="${back}">Keep it</a>
      </div>
    </div>`;
}

export function deletionButton(path: string, describedBy?: string): Html {
  return buttonTo(path, { button: 'Delete', kind: 'danger', describedBy });
}

export function buttonTo(
  path: string,
  { button, kind, describedBy }: { button: string; kind: 'plain' | 'danger'; describedBy?: string | undefined },
): Html {
  return html`<form method="get" action="${path}" class="inline">
    <button class="${kind}" ${describedBy !== undefined && html`aria-describedby="${describedBy}"`}>${button}</button>
  </form>`;
}

export function recordHead(
  { path, project }: ProjectVisit,
  { back, all, title, isOwners = false }: { back: string; all: string; title: string; isOwners?: boolean },
): Html {
  return html`<p class="aside"><a href="${back}">${all}</a></p>
    <div class="title">
      <h1>${title}</h1>
      ${(!isOwners || project.owned) && deletionButton(`${path}/delete`)}
    </div>`;
}
