import { peopleOf, type VisibleProject } from '../auth/projects.ts';
import type { Caller } from '../auth/callers.ts';
import type { Queries } from '../db/open.ts';
import type { FieldErrors } from '../../shared/errors.ts';
import { approvers } from '../../shared/records/forms.ts';

/** Without approvers in `column`, all users of the project may approve. Users cannot approve their own requests. */
export function mayApprove(
  column: string,
  { id, email }: Pick<Caller, 'id' | 'email'>,
  askedBy: bigint | null,
): boolean {
  const named = approvers.fromColumn(column);
  return id !== askedBy && (named.length === 0 || named.includes(email));
}

/** False for a configuration file in the repository. It acts with the owner's rights, but others can write it. */
export function isByOwner({ project, caller }: { project: Pick<VisibleProject, 'owned'>; caller: Caller }): boolean {
  return project.owned && caller.via !== 'repository';
}

/** Approvers must be users of the project. */
export async function checkApprovers(
  db: Queries,
  project: Pick<VisibleProject, 'id' | 'owner_id'>,
  named: readonly string[] = [],
): Promise<FieldErrors> {
  if (named.length === 0) return {};
  const users = peopleOf(db, project).select('email').where('email', 'in', named);
  return (await users.execute()).length === named.length ? {} : { approvers: ['not_found'] };
}

export function changesAny<Row extends object>(
  names: readonly (keyof Row)[],
  changed: Partial<Row>,
  stored: Partial<Row>,
): boolean {
  return names.some((name) => changed[name] !== undefined && changed[name] !== stored[name]);
}
