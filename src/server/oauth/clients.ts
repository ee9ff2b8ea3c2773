import type { Queries, Transaction } from '../db/open.ts';
import type { OauthClientRow } from '../db/schema.ts';
import { commandLineId, commandLineName } from '../db/command-line-client.ts';
import { longest, most } from '../../shared/domain/bounds.ts';
import { parseId, type IdSource } from '../../shared/lib/ids.ts';
import { hashSecret, randomSecret, secretMatches } from '../../shared/lib/passwords.ts';
import { isLoopbackAddress, isRedirectAddress } from './redirects.ts';

export interface Client {
  id: bigint;
  /** null for the application that comes with Headrace, and for those that are not registered. */
  ownerId: bigint | null;
  name: string;
  redirectUris: readonly string[];
  /** Distributed without a secret, because it could not protect one. */
  isPublic: boolean;
  createdAt: bigint;
  /** Of an application that is not registered. It is stored when a user allows it; before, its `id` is 0. */
  documentUrl: string | null;
}

const unusedForMs = 60 * 60 * 1000;

function clientOf(row: OauthClientRow): Client {
  return {
    id: row.id,
    ownerId: row.owner_id,
    name: row.name,
    redirectUris: JSON.parse(row.redirect_uris) as string[],
    isPublic: row.secret_hash === null,
    createdAt: row.created_at,
    documentUrl: row.document_url,
  };
}

export interface ClientForm {
  name: string;
  redirectUris: readonly string[];
}

/** A user decides by this name, so no character may reverse or hide text. */
export function isApplicationName(name: string): boolean {
  return name.trim() !== '' && !/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(name);
}

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

/** Returns the only copy of the secret. A public application has none. */
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
    document_url: null,
  };
  await trx.insertInto('oauth_clients').values(row).execute();
  return { client: clientOf(row), secret };
}

/** The command line has the same public name on every server. */
function readClientId(text: string): bigint | undefined {
  return text === commandLineName ? commandLineId : parseId(text);
}

/** RFC 9700 section 2.1: exact. RFC 8252 section 7.3: the command line owns every port of the loopback interface. */
export function ownsAddress({ id, redirectUris }: Client, address: string): boolean {
  return redirectUris.includes(address) || (id === commandLineId && isLoopbackAddress(address));
}

export async function findClient(db: Queries, clientId: string): Promise<Client | undefined> {
  const row = await rowOf(db, clientId);
  return row && clientOf(row);
}

/** Applications that are not registered have no number for others: their document decides. */
function rowOf(db: Queries, clientId: string): Promise<OauthClientRow | undefined> {
  const id = readClientId(clientId);
  const rows = db.selectFrom('oauth_clients').selectAll();
  const found =
    id === undefined
      ? rows.where('document_url', '=', clientId)
      : rows.where('id', '=', id).where('document_url', 'is', null);
  return found.executeTakeFirst();
}

/** An application with a secret must send it, and one without must send none. */
export async function clientWithSecret(
  db: Queries,
  clientId: string,
  secret: string | undefined,
): Promise<Client | undefined> {
  const row = await rowOf(db, clientId);
  if (!row) return undefined;
  const { secret_hash: expected } = row;
  const isProven = expected === null ? secret === undefined : secret !== undefined && secretMatches(secret, expected);
  return isProven ? clientOf(row) : undefined;
}

/** Also replaces what an earlier document said. */
export async function storeDocument(trx: Transaction, ids: IdSource, client: Client): Promise<Client> {
  if (client.documentUrl === null) return client;
  const said = {
    name: client.name,
    redirect_uris: JSON.stringify(client.redirectUris),
    created_at: BigInt(Date.now()),
  };
  const { id } = await trx
    .insertInto('oauth_clients')
    .values({ id: ids.next(), owner_id: null, secret_hash: null, document_url: client.documentUrl, ...said })
    .onConflict((conflict) => conflict.column('document_url').doUpdateSet(said))
    .returning('id')
    .executeTakeFirstOrThrow();
  return { ...client, id };
}

/** Stored for a user who allowed them, and not used since. A new one may be about to get its code. */
export async function dropUnusedDocuments(trx: Transaction): Promise<void> {
  await trx
    .deleteFrom('oauth_clients')
    .where('document_url', 'is not', null)
    .where('created_at', '<', BigInt(Date.now() - unusedForMs))
    .where((of) =>
      of.not(of.exists(of.selectFrom('access_tokens').select('id').whereRef('client_id', '=', 'oauth_clients.id'))),
    )
    .where((of) =>
      of.not(of.exists(of.selectFrom('oauth_codes').select('id').whereRef('client_id', '=', 'oauth_clients.id'))),
    )
    .execute();
}

export async function clientsOf(db: Queries, ownerId: bigint): Promise<Client[]> {
  const rows = await db.selectFrom('oauth_clients').selectAll().where('owner_id', '=', ownerId).orderBy('id').execute();
  return rows.map(clientOf);
}

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

/** The old secret is invalid at once. Existing tokens stay valid. */
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
