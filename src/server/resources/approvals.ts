import type { VisibleProject } from '../auth/projects.ts';
import type { Caller } from '../auth/callers.ts';
import type { Queries } from '../db/open.ts';
import type { FieldErrors } from '../../shared/errors.ts';
import { approvers } from '../../shared/records/forms.ts';

/** Who may approve, and who decides on that. */

/**
 * Whether a caller may approve what was asked for. `column` has the approvers, in the form of the database; any user of
 * the project is one if there are none. All credentials of a user are that user, and nobody approves what they asked for.
 */
export function mayApprove(
  column: string,
  { id, email }: Pick<Caller, 'id' | 'email'>,
  askedBy: bigint | null,
): boolean {
  const named = approvers.fromColumn(column);
  return id !== askedBy && (named.length === 0 || named.includes(email));
}

/** Whether the owner of the project has made this call, and not a file in the repository in the owner's name. */
export function isByOwner({ project, caller }: { project: Pick<VisibleProject, 'owned'>; caller: Caller }): boolean {
  return project.owned && caller.via !== 'repository';
}

/** Approvers have to be users of the project. */
export async function checkApprovers(
  db: Queries,
  project: Pick<VisibleProject, 'id' | 'owner_id'>,
  named: readonly string[] = [],
): Promise<FieldErrors> {
  if (named.length === 0) return {};
  const users = db
    .selectFrom('users')
    .select('email')
    .where('email', 'in', named)
    .where((of) =>
      of.or([
        of('id', '=', project.owner_id),
        of('id', 'in', of.selectFrom('collaborators').select('user_id').where('project_id', '=', project.id)),
      ]),
    );
  return (await users.execute()).length === named.length ? {} : { approvers: ['not_found'] };
}

/** Whether a change sets any of these columns to something else than it is. */
export function changesAny<Row extends object>(
  names: readonly (keyof Row)[],
  changed: Partial<Row>,
  stored: Partial<Row>,
): boolean {
  return names.some((name) => changed[name] !== undefined && changed[name] !== stored[name]);
}
