import { html, type Html } from './html.ts';
import type { Page } from './layout.ts';
import type { PageDefinition } from './pages.ts';
import { projectPage, type ProjectVisit } from './project-pages.ts';
import type { PageRoute } from './site.ts';

interface Section {
  path: string;
  name: string;
  /** What a person may call the contents, for the search. */
  words: string;
  isOwners?: boolean;
  /** The beginning of the paths of its records, if it is not the section's own path. */
  records?: string;
}

const sections: readonly Section[] = [
  {
    path: '',
    name: 'General',
    words: 'address repository description file variables secrets ssh key connection delete',
  },
  {
    path: '/suites',
    name: 'Suites',
    words: 'command steps image services matrix needs rules timeout retries artifacts reports',
  },
  { path: '/caches', name: 'Caches', words: 'data' },
  {
    path: '/triggers',
    name: 'Triggers',
    words: 'hooks webhooks polling interval pull requests forks policies superseded',
  },
  { path: '/parameters', name: 'Parameters', words: 'questions inputs variables run manual' },
  { path: '/triggers/schedules', name: 'Schedules', words: 'cron nightly times' },
  {
    path: '/triggers/statuses',
    name: 'Statuses',
    words: 'badge forge checks targets',
    records: '/triggers/status_targets',
  },
  { path: '/deploys', name: 'Deploys', words: 'strategies' },
  { path: '/notifications', name: 'Notifications', words: 'webhooks receivers deliveries' },
  { path: '/members', name: 'Members', words: 'collaborators people invite', isOwners: true },
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

/** The sections that a text names, with the words of the text that name none. */
export function sectionsNamed(text: string): { sections: readonly Section[]; rest: string[] } {
  const typed = text.toLowerCase().split(/\s+/);
  const isNamed = ({ name, words }: Section, word: string): boolean =>
    `${name.toLowerCase()} ${words}`.split(' ').some((own) => own.startsWith(word));
  const naming = typed.filter((word) => word.length > 2 && sections.some((section) => isNamed(section, word)));
  const named = naming.length === 0 ? [] : sections.filter((section) => naming.every((word) => isNamed(section, word)));
  return { sections: named, rest: typed.filter((word) => !naming.includes(word)) };
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
