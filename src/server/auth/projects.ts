import { sql } from 'kysely';
import { ApiError } from '../../shared/errors.ts';
import type { Queries } from '../db/open.ts';
import { organisationOf } from '../db/organisation-of.ts';
import type { ProjectRow, ShellRow } from '../db/schema.ts';
import { isRole, roles, type Access, type Role } from '../http/route.ts';
import { isPaying, reaches, type Caller } from './callers.ts';
import { organisationKind, ownersFor, roleIn } from './organisations.ts';
import { includes, rolesFrom } from './roles.ts';

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
  | 'offered_to_id'
  | 'offered_by_id'
> {
  /** What the caller may do there. */
  role: Role;
  /** Whether the caller may do what the owner of a project may: maintainers and above. */
  owned: boolean;
  organisation_id: bigint | null;
}

interface Wanted {
  access: Access;
  /** Whether the call starts work that the owner pays for. */
  startsWork?: boolean | undefined;
  /** Whether public projects are open to anybody. */
  opensPublic?: boolean | undefined;
}

/**
 * For other accounts the project does not exist, unless it is public, and neither for credentials of other projects.
 * A role that is too low is refused. If the owner does not pay, the owner and anyone who would start work are refused.
 */
export async function admitToProject(
  db: Queries,
  caller: Caller,
  id: bigint,
  { access, startsWork = false, opensPublic = false }: Wanted,
): Promise<VisibleProject> {
  if (!reaches(caller, id)) throw new ApiError('not_found');
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
    .select(['p.branch_secrets', 'p.report_left_out', 'p.build_twice', 'p.public', 'p.parameters', 'p.most_priority'])
    .select(['p.includable', 'p.comment_commands', 'p.pull_request_notes', 'p.pull_request_builds'])
    .select(['p.forge_id', 'p.forge_repository', 'p.forge_repository_id', 'p.forge_git_origin'])
    .select(['p.forge_state', 'p.forge_state_reason'])
    .innerJoin('users as o', 'o.id', 'p.owner_id')
    .select(['p.ssh_public_key', 'o.billing', 'o.suspended'])
    .select(organisationOf)
    .where('p.id', '=', id)
    .executeTakeFirst();
  // Checked even if the project does not exist, so that the response time does not reveal whether it does.
  const role =
    caller.via === 'build'
      ? roleOfBuild(access)
      : found?.owner_id === caller.id
        ? 'owner'
        : await roleOn(db, id, caller, opensPublic);
  if (!found || role === undefined) throw new ApiError('not_found');
  const { billing, suspended, ...project } = found;
  if (!isRole(access) || !includes(role, access)) throw new ApiError('unauthorized');
  const isPaid = isPaying({ billing }) && !suspended;
  const owned = includes(role, 'maintainer');
  if (!isPaid && (owned || startsWork)) throw new ApiError('payment_required');
  return { ...project, role, owned };
}

/** A build of the project reads like anybody. Which other routes are open to it is in admission.ts. */
function roleOfBuild(access: Access): Role {
  return access === 'public' ? 'public' : 'developer';
}

/** Of the roles that the caller has, the one that may do most. */
async function roleOn(
  db: Queries,
  project: bigint,
  caller: Pick<Caller, 'id'>,
  opensPublic: boolean,
): Promise<Role | undefined> {
  const collaborator = db
    .selectFrom('collaborators')
    .select(sql<string>`'developer'`.as('role'))
    .where('project_id', '=', project)
    .where('user_id', '=', caller.id);
  const member = db
    .selectFrom('projects as p')
    .innerJoin('organisation_members as m', 'm.organisation_id', 'p.owner_id')
    .select('m.role')
    .where('p.id', '=', project)
    .where('m.user_id', '=', caller.id)
    .where('m.invitation_hash', 'is', null);
  const anybody = db
    .selectFrom('projects')
    .select(sql<string>`'public'`.as('role'))
    .where('id', '=', project)
    .where('public', '=', 1);
  const known = collaborator.unionAll(member);
  const rows = await (opensPublic ? known.unionAll(anybody) : known).execute();
  return roles.findLast((one) => rows.some(({ role }) => role === one));
}

/** Selects from `p`. A user who does not pay cannot use owned projects, but can use shared ones. */
export function projectsSeenBy(db: Queries, { id, unpaid, projects }: Pick<Caller, 'id' | 'unpaid' | 'projects'>) {
  const visible = db
    .selectFrom('projects as p')
    .where((where) =>
      where.or([
        where('p.owner_id', '=', id),
        where('p.id', 'in', where.selectFrom('collaborators').select('project_id').where('user_id', '=', id)),
        where('p.owner_id', 'in', ownersFor(db, id, 'viewer')),
      ]),
    );
  const within = projects === 'all' ? visible : visible.where('p.id', 'in', [...projects]);
  return unpaid ? within.where('p.owner_id', '!=', id) : within;
}

/** The accounts whose projects the caller may change: the caller's own, and organisations. */
export async function accountsManagedBy(db: Queries, { id }: Pick<Caller, 'id'>): Promise<ReadonlySet<bigint>> {
  const managed = await ownersFor(db, id, 'maintainer').execute();
  return new Set([id, ...managed.map(({ organisation_id: one }) => one)]);
}

/** Whether the user owns the project, or is a maintainer or owner of the organisation that does. */
export async function managesProject(
  db: Queries,
  { owner_id: owner }: Pick<VisibleProject, 'owner_id'>,
  userId: bigint,
): Promise<boolean> {
  if (owner === userId) return true;
  const role = await roleIn(db, owner, userId);
  return role !== undefined && includes(role, 'maintainer');
}

/** Whether a shell has variables limited to refs whose user no longer manages the project. */
export async function showsTooMuch(
  db: Queries,
  { sees_limited: seesLimited, project_id: project, account_id: user }: Omit<ShellRow, 'id'>,
): Promise<boolean> {
  if (seesLimited === 0) return false;
  const owned = db.selectFrom('projects').select('owner_id').where('id', '=', project);
  const found = await owned.executeTakeFirst();
  return found !== undefined && !(await managesProject(db, found, user));
}

/** People of a project, who may do more than look. */
export function peopleOf(db: Queries, project: Pick<VisibleProject, 'id' | 'owner_id'>) {
  return db
    .selectFrom('users')
    .where((of) =>
      of.or([
        of.and([of('id', '=', project.owner_id), of('kind', '<>', organisationKind)]),
        of('id', 'in', of.selectFrom('collaborators').select('user_id').where('project_id', '=', project.id)),
        of(
          'id',
          'in',
          of
            .selectFrom('organisation_members')
            .select('user_id')
            .where('organisation_id', '=', project.owner_id)
            .where('role', 'in', rolesFrom('developer'))
            .where('invitation_hash', 'is', null),
        ),
      ]),
    );
}

/** For an account's routes: `users` are for paying users, `operators` for operators. */
export function admitToAccount(caller: Caller, access: Access): void {
  if (access === 'operators' && !caller.isOperator) throw new ApiError('unauthorized');
  if (access !== 'users') return;
  if (caller.kind === 'collaborator') throw new ApiError('unauthorized');
  if (caller.unpaid) throw new ApiError('payment_required');
}
