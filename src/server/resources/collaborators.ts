import { projectRoute } from '../api/route.ts';
import { findUser, forgetInvited, insertUser } from '../auth/users.ts';
import type { Queries } from '../db/open.ts';
import type { CollaboratorRow } from '../db/schema.ts';
import { ApiError } from '../../shared/errors.ts';
import { required } from '../../shared/records/fields.ts';
import { timestamp } from '../../shared/lib/timestamps.ts';
import { collaboratorRecord, type Collaborator } from '../../shared/records/project.ts';
import { listOf } from '../../shared/records/schema.ts';
import { destroyed, destroyedAnswer, orNotFound, withIdString, type InProject } from './common.ts';
import { orTaken } from './names.ts';
import { address } from './users.ts';

function view(collaborator: CollaboratorRow & { email: string }): Collaborator {
  const { id, email, created_at: createdAt } = collaborator;
  return { ...withIdString('id', id), email, created_at: timestamp(createdAt) };
}

function collaboratorsOf(db: Queries, projectId: bigint) {
  return db
    .selectFrom('collaborators')
    .innerJoin('users', 'users.id', 'collaborators.user_id')
    .selectAll('collaborators')
    .select('users.email')
    .where('collaborators.project_id', '=', projectId);
}

async function loadCollaborator(
  call: InProject<'collaborator_id'>,
): Promise<{ collaborator: CollaboratorRow & { email: string } }> {
  const named = collaboratorsOf(call.db, call.project.id).where('collaborators.id', '=', call.params.collaborator_id);
  return { collaborator: orNotFound(await named.executeTakeFirst()) };
}

export const routes = [
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/collaborators',
    access: 'users',
    scope: 'projects',
    summary: 'List the people who work on a project with you',
    answer: listOf(collaboratorRecord),
    async handle({ db, project }) {
      return (await collaboratorsOf(db, project.id).orderBy('collaborators.id').execute()).map(view);
    },
  }),
  projectRoute({
    method: 'POST',
    path: '/projects/:project_id/collaborators',
    access: 'users',
    scope: 'projects',
    summary: 'Add a collaborator to a project; a person without an account is invited',
    body: { email: required(address) },
    creates: 'collaborators',
    answer: collaboratorRecord,
    audit: { action: 'collaborator.invited' },
    async handle({ db, project, caller, ids, input }) {
      const { email } = input;
      if (email === caller.email) throw new ApiError('already_exists', 'email'); // the owner has access already
      const known = await findUser(db, email);
      const invited = {
        email,
        kind: 'collaborator' as const,
        secrets: { password_hash: null, api_key_hash: null },
      };
      const userId = known?.id ?? (await insertUser(db, ids, invited));
      const row = { id: ids.next(), project_id: project.id, user_id: userId, created_at: BigInt(Date.now()) };
      await orTaken(db.insertInto('collaborators').values(row).execute(), 'email');
      return view({ ...row, email });
    },
  }),
  projectRoute({
    method: 'DELETE',
    path: '/projects/:project_id/collaborators/:collaborator_id',
    access: 'users',
    scope: 'projects',
    summary: 'Remove a collaborator from a project',
    answer: destroyedAnswer,
    load: loadCollaborator,
    audit: {
      action: 'collaborator.removed',
      subject: ({ collaborator: { id, email: name } }) => ({ id, name }),
    },
    async handle({ db, collaborator }) {
      const gone = await db.deleteFrom('collaborators').where('id', '=', collaborator.id).executeTakeFirst();
      orNotFound(gone.numDeletedRows === 1n ? gone : undefined);
      await forgetInvited(db, [collaborator.user_id]);
      return destroyed;
    },
  }),
];
