import { html, type Html } from './html.ts';
import type { Page } from './layout.ts';
import type { PageDefinition } from './pages.ts';
import { projectPage, type ProjectVisit } from './project-pages.ts';
import type { PageRoute } from './site.ts';

interface Section {
  path: string;
  name: string;
  isOwners?: boolean;
}

const sections: readonly Section[] = [
  { path: '', name: 'General' },
  { path: '/suites', name: 'Suites' },
  { path: '/caches', name: 'Caches' },
  { path: '/triggers', name: 'Triggers' },
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

function navigation({ project, projectPath }: ProjectVisit, path: string): Html {
  const [, first = ''] = path.split('/');
  const current = sections.some((one) => one.path === `/${first}`) ? `/${first}` : '';
  const shown = sections.filter(({ isOwners }) => !isOwners || project.owned);
  return html`<nav aria-label="Settings" class="tabs sections">
    ${shown.map(
      (one) =>
        html`<a href="${projectPath}/settings${one.path}" ${one.path === current && html`aria-current="true"`}
          >${one.name}</a
        >`,
    )}
  </nav>`;
}

export function settingsPath({ param }: { param: (name: string) => string }): string {
  return `/ui/projects/${param('project_id')}/settings`;
}
