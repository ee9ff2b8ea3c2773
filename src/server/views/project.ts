import type { ProjectRow } from '../db/schema.ts';
import { valuesIn } from '../../shared/records/fields.ts';
import { projectFields, type Project } from '../../shared/records/project.ts';
import { withIdString } from './id-string.ts';

const columns = Object.keys(projectFields) as (keyof typeof projectFields)[];
const ofForge = ['forge_id', 'forge_repository', 'forge_state', 'forge_state_reason'] as const;
export const shownColumns = ['id', 'build_state', ...columns, ...ofForge] as const;

type Shown = Pick<ProjectRow, (typeof shownColumns)[number]> & { organisation_id: bigint | null };

/** Without its sealed key, which is opened only if needed. */
export function projectView(project: Shown, owned: boolean): Omit<Project, 'ssh_public_key'> {
  return {
    ...withIdString('id', project.id),
    ...valuesIn(projectFields, project),
    build_state: project.build_state,
    owned,
    organisation_id: project.organisation_id,
    organisation_id_str: project.organisation_id === null ? '' : String(project.organisation_id),
    forge_id: project.forge_id,
    forge_id_str: project.forge_id === null ? '' : String(project.forge_id),
    forge_repository: project.forge_repository,
    forge_state: project.forge_state,
    forge_state_reason: project.forge_state_reason,
  };
}
