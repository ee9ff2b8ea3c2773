import { ApiError } from '../../shared/errors.ts';
import type { Queries } from '../db/open.ts';
import type { ProjectRow } from '../db/schema.ts';
import type { Access } from '../http/route.ts';
import { isPaying, type Caller } from './callers.ts';

/** Without the private key, which is only for the jobs that need it. */
export interface VisibleProject extends Omit<
  ProjectRow,
  | 'ssh_private_key'
  | 'last_event'
  | 'default_head_id'
  | 'default_branch'
  | 'passed_since'
  | 'failed_since'
  | 'forge_check_at'
  | 'forge_mends'
  | 'forge_held_until'
> {
  owned: boolean;
}

interface Wanted {
  access: Access;
  /** Whether the call starts work that the owner pays for. */
  startsWork?: boolean;
}

/**
 * For other accounts the project does not exist. A collaborator is refused owner-only access. If the owner does not
 * pay, the owner and anyone who would start work are refused.
 */
export async function admitToProject(
  db: Queries,
  caller: Caller,
  id: bigint,
  { access, startsWork = false }: Wanted,
): Promise<VisibleProject> {
  const found = await db
    .selectFrom('projects as p')
    .select([
      'p.id',
      'p.owner_id',
      'p.name',
      'p.description',
      'p.repository_url',
      'p.clone_url',
      'p.build_state',
      'p.created_at',
    ])
    .select(['p.poll_interval', 'p.fork_builds', 'p.cancel_superseded', 'p.public_badge', 'p.config_file'])
    .select(['p.branch_secrets', 'p.report_left_out', 'p.build_twice'])
    .select(['p.forge_id', 'p.forge_repository', 'p.forge_repository_id', 'p.forge_git_origin'])
    .select(['p.forge_state', 'p.forge_state_reason'])
    .innerJoin('users as o', 'o.id', 'p.owner_id')
    .select(['p.ssh_public_key', 'o.billing', 'o.suspended'])
    .where('p.id', '=', id)
    .executeTakeFirst();
  const owned = found?.owner_id === caller.id;
  // Checked even if the project does not exist, so that the response time does not reveal whether it does.
  const isAdmitted = owned || (await isMember(db, id, caller.id));
  if (!found || !isAdmitted) throw new ApiError('not_found');
  const { billing, suspended, ...project } = found;
  if (!owned && access === 'users') throw new ApiError('unauthorized');
  const isPaid = isPaying({ billing }) && !suspended;
  if (!isPaid && (owned || startsWork)) throw new ApiError('payment_required');
  return { ...project, owned };
}

/** Selects from `p`. A user who does not pay cannot use owned projects, but can use shared ones. */
export function projectsSeenBy(db: Queries, { id, unpaid }: Pick<Caller, 'id' | 'unpaid'>) {
  const visible = db
    .selectFrom('projects as p')
    .where((where) =>
      where.or([
        where('p.owner_id', '=', id),
        where('p.id', 'in', where.selectFrom('collaborators').select('project_id').where('user_id', '=', id)),
      ]),
    );
  return unpaid ? visible.where('p.owner_id', '!=', id) : visible;
}

async function isMember(db: Queries, project: bigint, user: bigint): Promise<boolean> {
  const collaborators = db.selectFrom('collaborators').select('id').where('project_id', '=', project);
  return (await collaborators.where('user_id', '=', user).executeTakeFirst()) !== undefined;
}

/** For an account's routes: `users` are for paying users, `operators` for operators. */
export function admitToAccount(caller: Caller, access: Access): void {
  if (access === 'operators' && !caller.isOperator) throw new ApiError('unauthorized');
  if (access !== 'users') return;
  if (caller.kind === 'collaborator') throw new ApiError('unauthorized');
  if (caller.unpaid) throw new ApiError('payment_required');
}
