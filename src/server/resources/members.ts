import {
  changeRole,
  forgetOldInvitations,
  insertMember,
  inviteMember,
  isLastOwner,
  membersOf,
  openInvitationsBy,
  removeMember,
  withdrawInvitationsBy,
  type Member,
} from '../auth/organisations.ts';
import { findUser, forgetInvited, hasAccount, insertUser, promote } from '../auth/users.ts';
import { ApiError } from '../../shared/errors.ts';
import { mostInvitations } from '../../shared/domain/bounds.ts';
import { mailLink } from '../mail/mailer.ts';
import { required } from '../../shared/records/fields.ts';
import { memberRecord, memberRole, newMemberRecord, type MemberView } from '../../shared/records/organisation.ts';
import { timestamp } from '../../shared/lib/timestamps.ts';
import { withIdString } from './common.ts';
import { byQuery, organisationRecords } from './record-routes.ts';
import { address } from './users.ts';

function view({ id, email, role, since, invitation_hash: open }: Member): MemberView {
  const state = open === null ? 'member' : 'invited';
  return { ...withIdString('id', id), email, role: role as MemberView['role'], state, since: timestamp(since) };
}

const members = organisationRecords({
  path: '/organisations/:organisation_id/members',
  name: 'member',
  access: 'owner',
  reads: 'viewer',
  scope: 'organisations',
  fields: { email: required(address), role: memberRole },
  answer: memberRecord,
  rows: ({ db, organisation }) => byQuery(membersOf(db, organisation.id), 'm.id'),
  view,
  subject: ({ id, email }) => ({ id, name: email }),
  details: ({ organisation }: { organisation?: { name: string } }) => ({ organisation: organisation?.name ?? '' }),
});

const lastOwner = (): ApiError =>
  ApiError.inWords('invalid_format', 'role', 'An organisation keeps at least one owner.');

export const routes = [
  members.list('List the members of an organisation, and those who are invited'),
  members.create(
    'Add a member; a person without an account is invited, and only this answer has the address of the invitation, ' +
      'which works once, within a week',
    {
      creates: 'organisation_members',
      answer: newMemberRecord,
      showsSecrets: true,
      action: 'member.added',
      details: ({ organisation, input }) => ({ organisation: organisation.name, role: input.role }),
      async handle({ db, database, ids, organisation, caller, origin, input: { email, role } }) {
        await database.holdRight(db, 'room', organisation.id);
        await forgetInvited(db, await forgetOldInvitations(db, organisation.id));
        const known = await findUser(db, email);
        const member = { organisation_id: organisation.id, role };
        if (known && hasAccount(known)) {
          const row = await insertMember(db, ids, { ...member, user_id: known.id });
          await promote(db, known);
          return { ...view({ ...row, email }), invitation_url: '', mailed: false };
        }
        const unproven = { email, kind: 'collaborator', secrets: { password_hash: null, api_key_hash: null } } as const;
        const userId = known?.id ?? (await insertUser(db, ids, unproven));
        const invited = await inviteMember(db, ids, { ...member, user_id: userId, invited_by: caller.id });
        if ((await openInvitationsBy(db, caller.id)) > mostInvitations) throw new ApiError('is_reserved');
        const url = `${origin}/ui/invitation?token=${encodeURIComponent(invited.token)}`;
        return { ...view({ ...invited.member, email }), invitation_url: url, mailed: false };
      },
      async follow({ mailer, organisation }, made) {
        if (made.invitation_url === '') return made;
        const subject = `Invitation to ${organisation.name} at Headrace`;
        const text = `You are invited to the organisation ${organisation.name}. The link works once, within a week.`;
        const letter = { to: made.email, link: made.invitation_url, subject, text };
        return { ...made, mailed: await mailLink(mailer, letter) };
      },
    },
  ),
  members.change('Change the role of a member', {
    body: { role: memberRole },
    details: ({ organisation, input }) => ({ organisation: organisation.name, role: input.role }),
    async handle({ db, database, organisation, member, input: { role = member.role as MemberView['role'] } }) {
      await database.holdRight(db, 'room', organisation.id);
      if (role !== 'owner' && (await isLastOwner(db, member))) throw lastOwner();
      await changeRole(db, member.id, role);
      if (role !== 'owner') await forgetInvited(db, await withdrawInvitationsBy(db, member));
      return view({ ...member, role });
    },
  }),
  members.remove('Remove a member, or leave: members of any role may remove themselves', {
    access: 'viewer',
    async handle({ db, database, organisation, caller, member }) {
      if (organisation.role !== 'owner' && member.user_id !== caller.id) throw new ApiError('unauthorized');
      await database.holdRight(db, 'room', organisation.id);
      if (await isLastOwner(db, member)) throw lastOwner();
      await removeMember(db, member.id);
      await forgetInvited(db, [member.user_id, ...(await withdrawInvitationsBy(db, member))]);
    },
  }),
];
