import type { ProjectRow } from '../db/schema.ts';
import { twin } from './twin.ts';

type Shown = Pick<ProjectRow, 'id' | 'name' | 'description' | 'repository_url' | 'build_state'>;

/** A project without its key, which is sealed in the store and opened only where it is needed. */
export function projectView(project: Shown, owned: boolean) {
  return {
    ...twin('id', project.id),
    name: project.name,
    description: project.description,
    repository_url: project.repository_url,
    build_state: project.build_state,
    owned,
  };
}
