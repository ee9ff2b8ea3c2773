import type { ProjectRow } from '../db/schema.ts';
import { valuesIn } from '../records/fields.ts';
import { projectFields, type Project } from '../records/project.ts';
import { withIdString } from './id-string.ts';

/** The columns that are shown. */
const columns = Object.keys(projectFields) as (keyof typeof projectFields)[];
export const shownColumns = ['id', 'build_state', ...columns] as const;

type Shown = Pick<ProjectRow, (typeof shownColumns)[number]>;

/** A project without its key, which is sealed in the database and opened only where it is needed. */
export function projectView(project: Shown, owned: boolean): Omit<Project, 'ssh_public_key'> {
  return {
    ...withIdString('id', project.id),
    ...valuesIn(projectFields, project),
    build_state: project.build_state,
    owned,
  };
}
