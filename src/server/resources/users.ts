import { sql } from 'kysely';
import { onPage } from '../api/pages.ts';
import { accountRoute } from '../api/route.ts';
import type { Call } from '../api/call.ts';
import { mailLink } from '../mail/mailer.ts';
import { identityOf } from '../auth/identities.ts';
import { insertLink, type PasswordLink } from '../auth/password-links.ts';
import { findUserById, insertUser, people, normalizeEmail, updateUser } from '../auth/users.ts';
import type { Queries, Transaction } from '../db/open.ts';
import type { UserRow } from '../db/schema.ts';
import { ApiError } from '../../shared/errors.ts';
import { oneOf, refined, required, text } from '../../shared/records/fields.ts';
import { pageOf } from '../http/paging.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import { timestamp } from '../../shared/lib/timestamps.ts';
import { invitedUserRecord, userRecord, type User } from '../../shared/records/installation.ts';
import { listOf } from '../../shared/records/schema.ts';
import { likePattern, orNotFound, withIdString } from './common.ts';

function view(user: Readonly<UserRow>): User {
  const { id, email, kind, billing } = user;
  return {
    ...withIdString('id', id),
    email,
    kind,
    operator: user.operator === 1,
    suspended: user.suspended === 1,
    billing,
    has_password: user.password_hash !== null,
    created_at: timestamp(user.created_at),
  };
}

/** The link has no host, because callers know this server by different names. */
function linkView({ token, expiresAt }: PasswordLink) {
  return {
    password_path: `/ui/password?token=${encodeURIComponent(token)}`,
    expires_at: timestamp(expiresAt),
    mailed: false,
  };
}

/** Sends the link to the user too, if there is a mail server. The caller has it in any case. */
async function mailed<Made extends { email: string; password_path: string }>(
  { mailer, origin }: Pick<Call, 'mailer' | 'origin'>,
  made: Made,
): Promise<Made & { mailed: boolean }> {
  const subject = 'Your account at Headrace';
  const text = 'Set your password with this link. It works once, within a week.';
  const link = `${origin}${made.password_path}`;
  return { ...made, mailed: await mailLink(mailer, { to: made.email, link, subject, text }) };
}

async function loadUser(call: { db: Queries; params: { user_id: bigint } }): Promise<{ user: Readonly<UserRow> }> {
  return { user: orNotFound(await findUserById(call.db, call.params.user_id)) };
}

/**
 * Only for users who never signed in, and have no projects and organisations. With another user's link, an operator
 * could see secrets.
 */
async function linkFor(trx: Transaction, ids: IdSource, user: Readonly<UserRow>): Promise<PasswordLink> {
  if (user.password_hash !== null || (await identityOf(trx, user.id))) throw new ApiError('already_exists');
  const projects = trx.selectFrom('collaborators').select('id').where('user_id', '=', user.id);
  const members = trx.selectFrom('organisation_members').select('id').where('user_id', '=', user.id);
  if ((await projects.limit(1).executeTakeFirst()) ?? (await members.limit(1).executeTakeFirst()))
    throw new ApiError('is_reserved');
  return insertLink(trx, ids, user.id);
}

export const address = refined(text('email'), normalizeEmail);

export const routes = [
  accountRoute({
    method: 'GET',
    path: '/users',
    access: 'operators',
    scope: 'never',
    summary: 'List the accounts; `email` searches',
    query: { email: text('email', { description: 'A part of the address' }) },
    paged: true,
    answer: listOf(userRecord),
    async handle({ db, query: { email }, page }) {
      let users = people(db).selectAll();
      if (email !== '') users = users.where(sql<boolean>`email like ${likePattern(email)} escape '!'`);
      return pageOf(page, (await onPage(users, 'id', page).execute()).map(view));
    },
  }),
  accountRoute({
    method: 'POST',
    path: '/users',
    access: 'operators',
    scope: 'never',
    summary: 'Invite a user; only this response has the link to set a password, which works once, within a week',
    body: {
      email: required(address),
      kind: oneOf(['user', 'collaborator']),
    },
    creates: 'account',
    showsSecrets: true,
    answer: invitedUserRecord,
    audit: { action: 'user.created', details: ({ input: { kind } }) => ({ kind, password: 'link' }) },
    async handle({ db, ids, input }) {
      const { email, kind } = input;
      const secrets = { password_hash: null, api_key_hash: null };
      const id = await insertUser(db, ids, { email, kind, secrets });
      const user = orNotFound(await findUserById(db, id));
      return { ...view(user), ...linkView(await insertLink(db, ids, id)) };
    },
    follow: mailed,
  }),
  accountRoute({
    method: 'POST',
    path: '/users/:user_id/password_link',
    access: 'operators',
    scope: 'never',
    summary: 'Create another link for a user who has not used theirs; the old one stops working',
    creates: 'account',
    showsSecrets: true,
    answer: invitedUserRecord,
    load: loadUser,
    audit: { action: 'user.password_link_created' },
    async handle({ db, ids, user }) {
      return { ...view(user), ...linkView(await linkFor(db, ids, user)) };
    },
    follow: mailed,
  }),
  accountRoute({
    method: 'POST',
    path: '/users/:user_id/suspend',
    access: 'operators',
    scope: 'never',
    summary: 'Suspend an account, except for your own',
    answer: userRecord,
    load: loadUser,
    audit: { action: 'user.suspended', subject: ({ user }) => (user.suspended === 1 ? undefined : named(user)) },
    async handle({ db, caller, user }) {
      if (user.id === caller.id) throw new ApiError('is_reserved'); // otherwise no one might be able to lift it
      await updateUser(db, user.email, { suspended: 1 });
      return view({ ...user, suspended: 1 });
    },
  }),
  accountRoute({
    method: 'POST',
    path: '/users/:user_id/resume',
    access: 'operators',
    scope: 'never',
    summary: 'Lift the suspension of an account',
    answer: userRecord,
    load: loadUser,
    audit: { action: 'user.resumed', subject: ({ user }) => (user.suspended === 1 ? named(user) : undefined) },
    async handle({ db, user }) {
      await updateUser(db, user.email, { suspended: 0 });
      return view({ ...user, suspended: 0 });
    },
  }),
];

function named({ id, email }: Readonly<UserRow>): { id: bigint; name: string } {
  return { id, name: email };
}
