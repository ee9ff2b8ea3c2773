import { ApiError } from '../../shared/errors.ts';
import { isUniqueViolation, type Queries, type Transaction } from '../db/open.ts';
import type { OrganisationMemberRow } from '../db/schema.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import { hashSecret, randomSecret } from '../../shared/lib/passwords.ts';
import { includes, rolesFrom, type MemberRole } from './roles.ts';

/** An organisation is a row of `users` that nobody can sign in as. Its name is in the column `email`. */
export const organisationKind = 'organisation';

export interface Organisation {
  id: bigint;
  name: string;
  description: string;
  created_at: bigint;
}

const organisations = (db: Queries) =>
  db
    .selectFrom('organisations as g')
    .innerJoin('users as u', 'u.id', 'g.id')
    .select(['g.id', 'u.email as name', 'g.description', 'u.created_at']);

/** Invited persons are no members yet. */
const members = (db: Queries, userId: bigint) =>
  db.selectFrom('organisation_members').where('user_id', '=', userId).where('invitation_hash', 'is', null);

export async function organisationsOf(db: Queries, userId: bigint): Promise<(Organisation & { role: MemberRole })[]> {
  const rows = await organisations(db)
    .innerJoin('organisation_members as m', 'm.organisation_id', 'g.id')
    .select('m.role')
    .where('m.user_id', '=', userId)
    .where('m.invitation_hash', 'is', null)
    .orderBy('u.email')
    .execute();
  return rows.map((row) => ({ ...row, role: row.role as MemberRole }));
}

/** The owners of whose records the user may do what `role` may: the user, and organisations. */
export function ownersFor(db: Queries, userId: bigint, role: MemberRole) {
  return members(db, userId).select('organisation_id').where('role', 'in', rolesFrom(role));
}

export async function roleIn(db: Queries, organisationId: bigint, userId: bigint): Promise<MemberRole | undefined> {
  const own = members(db, userId).select('role').where('organisation_id', '=', organisationId);
  return (await own.executeTakeFirst())?.role as MemberRole | undefined;
}

/** For users who are no members the organisation does not exist. */
export async function admitToOrganisation(
  db: Queries,
  caller: { id: bigint },
  id: bigint,
  asked: MemberRole,
): Promise<Organisation & { role: MemberRole }> {
  const found = await organisations(db).where('g.id', '=', id).executeTakeFirst();
  const role = await roleIn(db, id, caller.id);
  if (!found || role === undefined) throw new ApiError('not_found');
  if (!includes(role, asked)) throw new ApiError('unauthorized');
  return { ...found, role };
}

/** For an organisation's record: what a role does not allow is refused, and for others the record does not exist. */
export async function admitToOwner(
  db: Queries,
  caller: { id: bigint },
  owner: bigint,
  asked: MemberRole,
): Promise<void> {
  if (owner === caller.id) return;
  const role = await roleIn(db, owner, caller.id);
  if (role === undefined) throw new ApiError('not_found');
  if (!includes(role, asked)) throw new ApiError('unauthorized');
}

/** The account that a new record belongs to: the organisation that is named, or the caller. */
export async function ownerFor(
  db: Queries,
  caller: { id: bigint },
  organisationId: bigint | undefined,
  asked: MemberRole,
): Promise<bigint> {
  if (organisationId === undefined) return caller.id;
  const role = await roleIn(db, organisationId, caller.id);
  if (role === undefined) throw new ApiError('not_found', 'organisation_id');
  if (!includes(role, asked)) throw new ApiError('unauthorized');
  return organisationId;
}

export async function organisationNamed(db: Queries, name: string): Promise<Organisation | undefined> {
  return organisations(db).where('u.email', '=', name).executeTakeFirst();
}

/** The creator is its first owner. */
export async function insertOrganisation(
  trx: Transaction,
  ids: IdSource,
  { name, description, creator }: { name: string; description: string; creator: bigint },
): Promise<Organisation> {
  const now = BigInt(Date.now());
  const id = ids.next();
  const never = { news: 0, by_invitation: 0, password_by_link: 0, asks_passkey: 0, shut_out: '' };
  const account = { id, email: name, kind: organisationKind, password_hash: null, api_key_hash: null };
  await orTakenName(
    trx
      .insertInto('users')
      .values({ ...account, suspended: 0, billing: 'ok', created_at: now, operator: 0, ...never })
      .execute(),
  );
  await trx.insertInto('organisations').values({ id, description }).execute();
  await insertMember(trx, ids, { organisation_id: id, user_id: creator, role: 'owner' });
  return { id, name, description, created_at: now };
}

export async function changeOrganisation(
  trx: Transaction,
  id: bigint,
  { name, description }: { name?: string | undefined; description?: string | undefined },
): Promise<void> {
  if (name !== undefined)
    await orTakenName(trx.updateTable('users').set({ email: name }).where('id', '=', id).execute());
  if (description !== undefined)
    await trx.updateTable('organisations').set({ description }).where('id', '=', id).execute();
}

async function orTakenName<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (isUniqueViolation(error)) throw new ApiError('already_exists', 'name');
    throw error;
  }
}

export type Member = OrganisationMemberRow & { email: string };

/** Also those who are invited, unless their invitation is too old. */
export function membersOf(db: Queries, organisationId: bigint) {
  return db
    .selectFrom('organisation_members as m')
    .innerJoin('users as u', 'u.id', 'm.user_id')
    .selectAll('m')
    .select('u.email')
    .where('m.organisation_id', '=', organisationId)
    .where((of) => of.or([of('m.expires_at', 'is', null), of('m.expires_at', '>', BigInt(Date.now()))]));
}

const invitationMs = 7 * 24 * 60 * 60 * 1000;

type NewMember = Pick<OrganisationMemberRow, 'organisation_id' | 'user_id'> & { role: MemberRole };

export async function insertMember(trx: Transaction, ids: IdSource, member: NewMember): Promise<OrganisationMemberRow> {
  return insert(trx, ids, { ...member, invited_by: null, invitation_hash: null, expires_at: null });
}

/** The token is the only copy. */
export async function inviteMember(
  trx: Transaction,
  ids: IdSource,
  member: NewMember & { invited_by: bigint },
): Promise<{ member: OrganisationMemberRow; token: string }> {
  const token = randomSecret('hri');
  const open = { invitation_hash: hashSecret(token), expires_at: BigInt(Date.now() + invitationMs) };
  return { member: await insert(trx, ids, { ...member, ...open }), token };
}

async function insert(
  trx: Transaction,
  ids: IdSource,
  member: Omit<OrganisationMemberRow, 'id' | 'since'>,
): Promise<OrganisationMemberRow> {
  const row = { id: ids.next(), since: BigInt(Date.now()), ...member };
  try {
    await trx.insertInto('organisation_members').values(row).execute();
  } catch (error) {
    if (isUniqueViolation(error)) throw new ApiError('already_exists', 'email');
    throw error;
  }
  return row;
}

export async function openInvitationsBy(db: Queries, userId: bigint): Promise<number> {
  const open = db
    .selectFrom('organisation_members')
    .where('invited_by', '=', userId)
    .where('invitation_hash', 'is not', null);
  const counted = open.where('expires_at', '>', BigInt(Date.now())).select((of) => of.fn.countAll<bigint>().as('many'));
  return Number((await counted.executeTakeFirstOrThrow()).many);
}

export async function changeRole(trx: Transaction, memberId: bigint, role: MemberRole): Promise<void> {
  await trx.updateTable('organisation_members').set({ role }).where('id', '=', memberId).execute();
}

export async function removeMember(trx: Transaction, memberId: bigint): Promise<void> {
  await trx.deleteFrom('organisation_members').where('id', '=', memberId).execute();
}

/** Returns the users who were invited. */
export async function forgetOldInvitations(trx: Transaction, organisationId: bigint): Promise<bigint[]> {
  const old = trx.deleteFrom('organisation_members').where('organisation_id', '=', organisationId);
  const gone = await old.where('expires_at', '<=', BigInt(Date.now())).returning('user_id').execute();
  return gone.map(({ user_id: id }) => id);
}

/** Those of a user who may no longer invite. Returns the users who were invited. */
export async function withdrawInvitationsBy(
  trx: Transaction,
  { organisation_id: organisation, user_id: user }: Pick<OrganisationMemberRow, 'organisation_id' | 'user_id'>,
): Promise<bigint[]> {
  const open = trx.deleteFrom('organisation_members').where('organisation_id', '=', organisation);
  const own = open.where('invited_by', '=', user).where('invitation_hash', 'is not', null);
  return (await own.returning('user_id').execute()).map(({ user_id: id }) => id);
}

/** Without it an organisation would be nobody's. */
export async function isLastOwner(
  trx: Transaction,
  { organisation_id: organisation, user_id: user }: Pick<OrganisationMemberRow, 'organisation_id' | 'user_id'>,
): Promise<boolean> {
  const all = trx.selectFrom('organisation_members').select('user_id').where('organisation_id', '=', organisation);
  const owners = await all.where('role', '=', 'owner').where('invitation_hash', 'is', null).limit(2).execute();
  return owners.length === 1 && owners[0]?.user_id === user;
}

/** An organisation that has no other owner than this user. */
export async function ownersAlone(trx: Transaction, userId: bigint): Promise<string | undefined> {
  const own = members(trx, userId).selectAll().where('role', '=', 'owner');
  for (const member of await own.execute())
    if (await isLastOwner(trx, member))
      return (await organisations(trx).where('g.id', '=', member.organisation_id).executeTakeFirst())?.name;
  return undefined;
}

export interface Invitation extends OrganisationMemberRow {
  organisation: string;
  email: string;
  has_password: boolean;
  /** The user may do something besides, so the invitation alone does not prove who they are. */
  has_access: boolean;
}

export async function findInvitation(db: Queries, token: string): Promise<Invitation | undefined> {
  const found = await db
    .selectFrom('organisation_members as m')
    .innerJoin('users as u', 'u.id', 'm.user_id')
    .innerJoin('users as g', 'g.id', 'm.organisation_id')
    .innerJoin('users as b', 'b.id', 'm.invited_by')
    .selectAll('m')
    .select(['u.email', 'g.email as organisation', 'u.password_hash', 'u.api_key_hash'])
    .select((of) => [
      of.exists(of.selectFrom('collaborators').select('id').whereRef('user_id', '=', 'u.id')).as('collaborates'),
      of
        .exists(
          of
            .selectFrom('organisation_members as o')
            .select('o.id')
            .whereRef('o.user_id', '=', 'u.id')
            .where('o.invitation_hash', 'is', null),
        )
        .as('belongs'),
      of.exists(of.selectFrom('identities').select('id').whereRef('user_id', '=', 'u.id')).as('linked'),
    ])
    .where('m.invitation_hash', '=', hashSecret(token))
    .where('m.expires_at', '>', BigInt(Date.now()))
    .where('u.suspended', '=', 0)
    .where('b.suspended', '=', 0)
    .where('b.shut_out', '=', '')
    .executeTakeFirst();
  if (!found) return undefined;
  const { password_hash: password, api_key_hash: key, collaborates, belongs, linked, ...invitation } = found;
  const hasPassword = password !== null || key !== null;
  return {
    ...invitation,
    has_password: hasPassword,
    has_access: Boolean(collaborates) || Boolean(belongs) || Boolean(linked),
  };
}

/** False if another use of the invitation came first. */
export async function takeInvitation(trx: Transaction, memberId: bigint): Promise<boolean> {
  const taken = trx
    .updateTable('organisation_members')
    .set({ invitation_hash: null, expires_at: null, since: BigInt(Date.now()) })
    .where('id', '=', memberId)
    .where('invitation_hash', 'is not', null);
  return (await taken.executeTakeFirst()).numUpdatedRows === 1n;
}

/** Its row stays for records that name it. Its name is free again. Returns the users who were invited. */
export async function retireOrganisation(trx: Transaction, id: bigint): Promise<bigint[]> {
  const invited = trx.deleteFrom('organisation_members').where('organisation_id', '=', id);
  const gone = await invited.where('invitation_hash', 'is not', null).returning('user_id').execute();
  await trx.deleteFrom('organisations').where('id', '=', id).execute();
  await trx
    .updateTable('users')
    .set({ email: `deleted ${id}`, kind: 'deleted' })
    .where('id', '=', id)
    .execute();
  return gone.map(({ user_id: user }) => user);
}
