import type { Queries } from '../db/open.ts';

/** The owner of a project and its collaborators. */
export function usersOfProject(db: Queries, projectId: bigint) {
  return db
    .selectFrom('users')
    .where((of) =>
      of.or([
        of('users.id', '=', of.selectFrom('projects').select('owner_id').where('id', '=', projectId)),
        of('users.id', 'in', of.selectFrom('collaborators').select('user_id').where('project_id', '=', projectId)),
      ]),
    );
}
