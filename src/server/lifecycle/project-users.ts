import type { Queries } from '../db/open.ts';

/** The owner of a project, its collaborators, and the members of the organisation that owns it. */
export function usersOfProject(db: Queries, projectId: bigint) {
  return db
    .selectFrom('users')
    .where((of) =>
      of.or([
        of('users.id', '=', of.selectFrom('projects').select('owner_id').where('id', '=', projectId)),
        of('users.id', 'in', of.selectFrom('collaborators').select('user_id').where('project_id', '=', projectId)),
        of(
          'users.id',
          'in',
          of
            .selectFrom('organisation_members')
            .innerJoin('projects', 'projects.owner_id', 'organisation_members.organisation_id')
            .select('user_id')
            .where('projects.id', '=', projectId)
            .where('invitation_hash', 'is', null),
        ),
      ]),
    );
}
