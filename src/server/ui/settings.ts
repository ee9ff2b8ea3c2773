import { html, type Html } from './html.ts';
import type { Page } from './layout.ts';
import type { PageDefinition } from './pages.ts';
import { projectPage, type ProjectVisit } from './project-pages.ts';
import type { PageRoute } from './site.ts';

interface Section {
  path: string;
  name: string;
  isOwners?: boolean;
  /** The beginning of the paths of its records, if it is not the section's own path. */
  records?: string;
}

const sections: readonly Section[] = [
  { path: '', name: 'General' },
  { path: '/suites', name: 'Suites' },
  { path: '/caches', name: 'Caches' },
  { path: '/triggers', name: 'Triggers' },
  { path: '/triggers/schedules', name: 'Schedules' },
  { path: '/triggers/statuses', name: 'Statuses', records: '/triggers/status_targets' },
  { path: '/deploys', name: 'Deploys' },
  { path: '/notifications', name: 'Notifications' },
  { path: '/members', name: 'Members', isOwners: true },
];

interface SettingsPage extends Omit<PageDefinition, 'show'> {
  /** True for a page without the other sections. */
  isQuestion?: boolean;
  show: (visit: ProjectVisit) => Promise<Page>;
}

export function settingsPage({ path, isQuestion = false, show, ...rest }: SettingsPage): PageRoute[] {
  return projectPage({
    ...rest,
    path: `/settings${path}`,
    tab: 'settings',
    async show(visit) {
      const shown = await show(visit);
      if (isQuestion) return shown;
      return { ...shown, main: html`${navigation(visit, path)} ${shown.main}` };
    },
  });
}

/** The innermost section around the page. */
function sectionOf(page: string): Section | undefined {
  const isIn = (path: string): boolean => page === path || page.startsWith(`${path}/`);
  return sections.findLast(({ path, records = path }) => isIn(path) || isIn(records));
}

function navigation({ project, projectPath }: ProjectVisit, path: string): Html {
  const current = sectionOf(path);
  const shown = sections.filter(({ isOwners }) => !isOwners || project.owned);
  return html`<nav aria-label="Settings" class="tabs sections">
    ${shown.map(
      (one) =>
        html`<a href="${projectPath}/settings${one.path}" ${one === current && html`aria-current="true"`}
          >${one.name}</a
        >`,
    )}
  </nav>`;
}

export function settingsPath({ param }: { param: (name: string) => string }): string {
  return `/ui/projects/${param('project_id')}/settings`;
}
