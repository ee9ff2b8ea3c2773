import type { Queries, Transaction } from '../db/open.ts';
import type { OauthClientRow } from '../db/schema.ts';
import { commandLineId, commandLineName } from '../db/command-line-client.ts';
import { longest, most } from '../../shared/domain/bounds.ts';
import { parseId, type IdSource } from '../../shared/lib/ids.ts';
import { hashSecret, randomSecret, secretMatches } from '../../shared/lib/passwords.ts';
import { isLoopbackAddress, isRedirectAddress } from './redirects.ts';

/** A registered application. */
export interface Client {
  id: bigint;
  /** null for the application that comes with the program: nobody registered it. */
  ownerId: bigint | null;
  name: string;
  redirectUris: readonly string[];
  /** Distributed without a secret, because it could not keep one. */
  isPublic: boolean;
  createdAt: bigint;
}

function clientOf(row: OauthClientRow): Client {
  return {
    id: row.id,
    ownerId: row.owner_id,
    name: row.name,
    redirectUris: JSON.parse(row.redirect_uris) as string[],
    isPublic: row.secret_hash === null,
    createdAt: row.created_at,
  };
}

export interface ClientForm {
  name: string;
  redirectUris: readonly string[];
}

/** A person decides by this name: no character in it may reverse or hide text. */
export function isApplicationName(name: string): boolean {
  return name.trim() !== '' && !/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(name);
}

/** What is wrong with a registration, in words for the operator who types it. */
export function mistakeIn({ name, redirectUris }: ClientForm): string | undefined {
  if (name.trim() === '') return 'Give it a name.';
  if (name.length > longest.applicationName || !isApplicationName(name))
    return `A name has at most ${longest.applicationName} characters, all of which can be seen.`;
  if (redirectUris.length > most.redirectAddresses) return `At most ${most.redirectAddresses} redirect addresses.`;
  const unfit = redirectUris.find((address) => !isRedirectAddress(address));
  return unfit && `${unfit} is not a redirect address: it must be complete, without a fragment.`;
}

interface NewClient extends ClientForm {
  ownerId: bigint;
  isPublic: boolean;
}

/** Registers an application. The returned value is the only copy of its secret; a public application has none. */
export async function insertClient(
  trx: Transaction,
  ids: IdSource,
  { ownerId, name, redirectUris, isPublic }: NewClient,
): Promise<{ client: Client; secret: string | undefined }> {
  const secret = isPublic ? undefined : randomSecret('hrs');
  const row: OauthClientRow = {
    id: ids.next(),
    owner_id: ownerId,
    name: name.trim(),
    redirect_uris: JSON.stringify([...new Set(redirectUris)]),
    secret_hash: secret === undefined ? null : hashSecret(secret),
    created_at: BigInt(Date.now()),
  };
  await trx.insertInto('oauth_clients').values(row).execute();
  return { client: clientOf(row), secret };
}

/** The command line has the same public name on every server, because it is the same program everywhere. */
function readClientId(text: string): bigint | undefined {
  return text === commandLineName ? commandLineId : parseId(text);
}

/**
 * RFC 9700 section 2.1: an exact comparison. RFC 8252 section 7.3: the command line listens on whichever port of the
 * loopback interface is free, so there every port is its own.
 */
export function ownsAddress({ ownerId, redirectUris }: Client, address: string): boolean {
  return redirectUris.includes(address) || (ownerId === null && isLoopbackAddress(address));
}

export async function findClient(db: Queries, clientId: string | bigint): Promise<Client | undefined> {
  const id = typeof clientId === 'string' ? readClientId(clientId) : clientId;
  if (id === undefined) return undefined;
  const row = await db.selectFrom('oauth_clients').selectAll().where('id', '=', id).executeTakeFirst();
  return row && clientOf(row);
}

/** Authenticates an application: one with a secret must send it, one without must send none. */
export async function clientWithSecret(
  db: Queries,
  clientId: string,
  secret: string | undefined,
): Promise<Client | undefined> {
  const id = readClientId(clientId);
  if (id === undefined) return undefined;
  const row = await db.selectFrom('oauth_clients').selectAll().where('id', '=', id).executeTakeFirst();
  if (!row) return undefined;
  const { secret_hash: expected } = row;
  const isProven = expected === null ? secret === undefined : secret !== undefined && secretMatches(secret, expected);
  return isProven ? clientOf(row) : undefined;
}

/** A person's applications, oldest first. */
export async function clientsOf(db: Queries, ownerId: bigint): Promise<Client[]> {
  const rows = await db.selectFrom('oauth_clients').selectAll().where('owner_id', '=', ownerId).orderBy('id').execute();
  return rows.map(clientOf);
}

/** The applications of all accounts, for the operator, oldest first. */
export async function allClients(db: Queries): Promise<(Client & { owner: string })[]> {
  const rows = await db
    .selectFrom('oauth_clients as c')
    .innerJoin('users as u', 'u.id', 'c.owner_id')
    .selectAll('c')
    .select('u.email as owner')
    .orderBy('c.id')
    .execute();
  return rows.map((row) => ({ ...clientOf(row), owner: row.owner }));
}

export async function updateClient(trx: Transaction, client: Client, form: Partial<ClientForm>): Promise<Client> {
  const { name, redirectUris } = { ...client, ...form };
  const changed = { name, redirect_uris: JSON.stringify(redirectUris) };
  await trx.updateTable('oauth_clients').set(changed).where('id', '=', client.id).execute();
  return { ...client, name, redirectUris };
}

/** The old secret is invalid at once; existing tokens stay valid. */
export async function renewSecret(trx: Transaction, { id }: Client): Promise<string> {
  const secret = randomSecret('hrs');
  await trx
    .updateTable('oauth_clients')
    .set({ secret_hash: hashSecret(secret) })
    .where('id', '=', id)
    .execute();
  return secret;
}

/** Also deletes its tokens and codes. */
export async function deleteClient(trx: Transaction, { id }: Client): Promise<void> {
  await trx.deleteFrom('oauth_clients').where('id', '=', id).execute();
}
