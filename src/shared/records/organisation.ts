import type { Static } from 'typebox';
import { oneOf, required, text } from './fields.ts';
import { description } from './forms.ts';
import { boolean, dateTime, ownId, record, string, wordOf } from './schema.ts';

/** Each may do what those before it may. */
export const memberRoles = ['viewer', 'developer', 'maintainer', 'owner'] as const;

const organisationName = text('organisationName', {
  pattern: /^[a-z0-9-]{1,64}$/,
  description: 'lower-case letters, digits and hyphens; unique on the server',
});

export const organisationFields = { name: required(organisationName), description };
export const organisationRecord = record('Organisation', {
  ...ownId,
  name: string,
  description: string,
  role: wordOf(memberRoles),
  created_at: dateTime,
});
export type OrganisationView = Static<typeof organisationRecord>;

export const memberRole = oneOf(memberRoles);
const member = {
  ...ownId,
  email: string,
  role: wordOf(memberRoles),
  state: wordOf(['member', 'invited']),
  since: dateTime,
};
export const memberRecord = record('Member', member);
export type MemberView = Static<typeof memberRecord>;
/**
 * Only this response has the address where an invited person sets a password. Blank for a member. `mailed`: the mail
 * server took a letter with it.
 */
export const newMemberRecord = record('NewMember', { ...member, invitation_url: string, mailed: boolean });
