import { includes } from '../auth/roles.ts';
import { ApiError } from '../../shared/errors.ts';
import type { Role } from '../http/route.ts';
import type { Project } from '../../shared/records/project.ts';
import type { Page, ProjectTab } from './layout.ts';
import { openPage, page, type OpenPageVisit, type PageDefinition } from './pages.ts';
import type { PageRoute } from './site.ts';

export type ProjectVisit = OpenPageVisit & {
  project: Project;
  projectPath: string;
  /** The visitor is not only a reader of a public project. */
  isMember: boolean;
  role: Role;
  /** The visitor may start and stop builds and deploys. */
  mayWork: boolean;
};

export const isOwned = ({ project }: ProjectVisit): boolean => project.owned;

interface ProjectPage extends Omit<PageDefinition, 'show'> {
  path: string;
  tab: ProjectTab;
  /** The page may be read without a session if the project is public. */
  isOpen?: boolean;
  show: (visit: ProjectVisit) => Promise<Page>;
}

/** Users without access to the project get the page for a missing record. */
export function projectPage({ path, tab, isOpen = false, show, ...rest }: ProjectPage): PageRoute[] {
  const define = isOpen ? openPage : page;
  return define({
    ...rest,
    path: `/ui/projects/:project_id${path}`,
    async show(visit: OpenPageVisit) {
      const role = (await visit.api.admit('GET /projects/:project_id')) ?? 'public';
      const project = await visit.api.get('/projects/:project_id');
      const projectPath = `/ui/projects/${project.id_str}`;
      const live = [`project:${project.id_str}`] as const;
      const isMember = role !== 'public';
      if (!isMember && !isOpen) throw new ApiError('unauthorized');
      const seen = { project, projectPath, role, isMember, mayWork: includes(role, 'developer') };
      const shown = await show(Object.assign(visit, seen));
      return { live, ...shown, project, tab, isOutside: !isMember };
    },
  });
}
