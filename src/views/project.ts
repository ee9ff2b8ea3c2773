import type { ProjectRow } from '../db/schema.ts';
import type { Project } from '../records/project.ts';
import { twin } from './twin.ts';

/** The columns that are shown. */
export const shownColumns = [
  'id',
  'name',
  'description',
  'repository_url',
  'build_state',
  'poll_interval',
  'fork_builds',
  'cancel_superseded',
  'public_badge',
  'config_file',
] as const satisfies (keyof ProjectRow)[];

type Shown = Pick<ProjectRow, (typeof shownColumns)[number]>;

/** A project without its key, which is sealed in the store and opened only where it is needed. */
export function projectView(project: Shown, owned: boolean) {
  return {
    ...twin('id', project.id),
    name: project.name,
    description: project.description,
    repository_url: project.repository_url,
    build_state: project.build_state,
    owned,
    poll_interval: project.poll_interval,
    fork_builds: project.fork_builds,
    cancel_superseded: project.cancel_superseded,
    public_badge: project.public_badge === 1,
    config_file: project.config_file,
  } satisfies Omit<Project, 'ssh_public_key'>;
}
