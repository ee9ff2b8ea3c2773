import type { Project } from '../../shared/records/project.ts';
import type { Page, ProjectTab } from './layout.ts';
import { page, type PageDefinition, type PageVisit } from './pages.ts';
import type { PageRoute } from './site.ts';

export type ProjectVisit = PageVisit & { project: Project; projectPath: string };

export const isOwned = ({ project }: ProjectVisit): boolean => project.owned;

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
