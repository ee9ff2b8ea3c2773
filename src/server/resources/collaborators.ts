import { findUser, forgetInvited, insertUser } from '../auth/users.ts';
import type { Transaction } from '../db/open.ts';
import type { CollaboratorRow } from '../db/schema.ts';
import { ApiError } from '../../shared/errors.ts';
import { required } from '../../shared/records/fields.ts';
import { timestamp } from '../../shared/lib/timestamps.ts';
import { collaboratorRecord, type Collaborator } from '../../shared/records/project.ts';
import { orNotFound, withIdString } from './common.ts';
import { orTaken } from './names.ts';
import { byQuery, projectRecords } from './record-routes.ts';
import { address } from './users.ts';

function view(collaborator: CollaboratorRow & { email: string }): Collaborator {
  const { id, email, created_at: createdAt } = collaborator;
  return { ...withIdString('id', id), email, created_at: timestamp(createdAt) };
}

/** The owner is no collaborator. */
export async function leaveCollaborators(trx: Transaction, projectId: bigint, owner: bigint): Promise<void> {
  await trx.deleteFrom('collaborators').where('project_id', '=', projectId).where('user_id', '=', owner).execute();
}

const collaborators = projectRecords({
  path: '/projects/:project_id/collaborators',
  name: 'collaborator',
  access: 'maintainer',
  scope: 'projects',
  fields: { email: required(address) },
  answer: collaboratorRecord,
  rows: ({ db, project }) =>
    byQuery(
      db
        .selectFrom('collaborators')
        .innerJoin('users', 'users.id', 'collaborators.user_id')
        .selectAll('collaborators')
        .select('users.email')
        .where('collaborators.project_id', '=', project.id),
      'collaborators.id',
    ),
  view,
  subject: ({ id, email }) => ({ id, name: email }),
});

export const routes = [
  collaborators.list('List the collaborators of a project'),
  collaborators.create('Add a collaborator to a project; a user without an account is invited', {
    creates: 'collaborators',
    action: 'collaborator.invited',
    async handle({ db, project, caller, ids, input }) {
      const { email } = input;
      if (email === caller.email) throw new ApiError('already_exists', 'email'); // the owner already has access
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
  collaborators.remove('Remove a collaborator from a project', {
    action: 'collaborator.removed',
    async handle({ db, collaborator }) {
      const gone = await db.deleteFrom('collaborators').where('id', '=', collaborator.id).executeTakeFirst();
      orNotFound(gone.numDeletedRows === 1n ? gone : undefined);
      await forgetInvited(db, [collaborator.user_id]);
    },
  }),
];
