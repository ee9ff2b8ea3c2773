import { ApiError } from '../errors.ts';
import type { Queries } from '../db/open.ts';
import { prepared } from '../db/prepared.ts';
import type { ProjectRow } from '../db/schema.ts';
import type { Access } from '../http/route.ts';
import type { Caller } from './callers.ts';

/** A project that the caller may see. */
export interface VisibleProject extends ProjectRow {
  owned: boolean;
}

const projectAndMembership = prepared<{ id: bigint; caller: bigint }, ProjectRow & { collaborating: bigint | null }>(
  (db, value) =>
    db
      .selectFrom('projects')
      .leftJoin('collaborators', (join) =>
        join.onRef('collaborators.project_id', '=', 'projects.id').on('collaborators.user_id', '=', value('caller')),
      )
      .selectAll('projects')
      .select('collaborators.id as collaborating')
      .where('projects.id', '=', value('id')),
);

/**
 * The project, if the caller may do with it what `access` says. To a stranger it does not exist; to a
 * collaborator, what is the owner's alone is refused; an owner who does not pay is told so.
 */
export async function admitToProject(db: Queries, caller: Caller, id: bigint, access: Access): Promise<VisibleProject> {
  const [found] = await projectAndMembership(db, { id, caller: caller.id });
  if (!found) throw new ApiError('not_found');
  const { collaborating, ...project } = found;
  const owned = project.owner_id === caller.id;
  if (!owned && collaborating === null) throw new ApiError('not_found');
  if (!owned && access === 'users') throw new ApiError('unauthorized');
  if (owned && caller.unpaid) throw new ApiError('payment_required');
  return { ...project, owned };
}

/** What belongs to an account and not to a project: for users alone, and for those who pay. */
export function admitToAccount(caller: Caller, access: Access): void {
  if (access !== 'users') return;
  if (caller.kind === 'collaborator') throw new ApiError('unauthorized');
  if (caller.unpaid) throw new ApiError('payment_required');
}
