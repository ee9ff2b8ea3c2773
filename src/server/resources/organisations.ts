import { accountRoute, organisationRoute } from '../api/route.ts';
import {
  changeOrganisation,
  insertOrganisation,
  organisationsOf,
  retireOrganisation,
  type Organisation,
} from '../auth/organisations.ts';
import type { MemberRole } from '../auth/roles.ts';
import { forgetInvited } from '../auth/users.ts';
import { ApiError } from '../../shared/errors.ts';
import { mostOrganisations } from '../../shared/domain/bounds.ts';
import { timestamp } from '../../shared/lib/timestamps.ts';
import { organisationFields, organisationRecord, type OrganisationView } from '../../shared/records/organisation.ts';
import { listOf } from '../../shared/records/schema.ts';
import { dropConnections, refuseWhileInUse } from './account.ts';
import { destroyed, destroyedAnswer, withIdString } from './common.ts';

function view(organisation: Organisation & { role: MemberRole }): OrganisationView {
  const { id, name, description, role, created_at: createdAt } = organisation;
  return { ...withIdString('id', id), name, description, role, created_at: timestamp(createdAt) };
}

const path = '/organisations/:organisation_id';

export const routes = [
  accountRoute({
    method: 'GET',
    path: '/organisations',
    access: 'both',
    scope: 'organisations',
    summary: 'List the organisations that you are a member of, with your role',
    answer: listOf(organisationRecord),
    handle: async ({ db, caller }) => (await organisationsOf(db, caller.id)).map(view),
  }),
  accountRoute({
    method: 'POST',
    path: '/organisations',
    access: 'users',
    scope: 'organisations',
    summary: 'Create an organisation; you are its first owner',
    body: organisationFields,
    creates: 'organisation',
    answer: organisationRecord,
    audit: { action: 'organisation.created' },
    async handle({ db, database, ids, caller, input }) {
      await database.holdRight(db, 'room', caller.id);
      const owned = (await organisationsOf(db, caller.id)).filter(({ role }) => role === 'owner');
      if (owned.length >= mostOrganisations) throw new ApiError('is_reserved');
      return view({ ...(await insertOrganisation(db, ids, { ...input, creator: caller.id })), role: 'owner' });
    },
  }),
  organisationRoute({
    method: 'GET',
    path,
    access: 'viewer',
    scope: 'organisations',
    summary: 'Fetch an organisation',
    answer: organisationRecord,
    handle: async ({ organisation }) => view(organisation),
  }),
  organisationRoute({
    method: 'PUT',
    path,
    access: 'owner',
    scope: 'organisations',
    summary: 'Change the name or the description of an organisation',
    body: organisationFields,
    answer: organisationRecord,
    audit: { action: 'organisation.updated', subject: ({ organisation }) => organisation },
    async handle({ db, organisation, input }) {
      await changeOrganisation(db, organisation.id, input);
      return view({ ...organisation, ...input });
    },
  }),
  organisationRoute({
    method: 'DELETE',
    path,
    access: 'owner',
    scope: 'organisations',
    summary: 'Delete an organisation that owns no projects and no dependencies',
    answer: destroyedAnswer,
    audit: { action: 'organisation.deleted', subject: ({ organisation }) => organisation },
    async handle({ db, database, organisation }) {
      await database.holdRight(db, 'names', organisation.id);
      await refuseWhileInUse(db, organisation.id);
      await dropConnections(db, organisation.id);
      await forgetInvited(db, await retireOrganisation(db, organisation.id));
      return destroyed;
    },
  }),
];
