import type { Queries, Transaction } from '../db/open.ts';
import type { AuditEntryRow } from '../db/schema.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import { timestamp } from '../../shared/lib/timestamps.ts';

/**
 * An entry is written in the transaction of the change, so they exist only together. The database refuses to change or
 * remove it. It contains no secret: names of changed fields, never their values.
 */

/** `nobody` only reads public projects, so no entry has it. */
export type Via =
  | 'api_key'
  | 'token'
  | 'user_token'
  | 'session'
  | 'command_line'
  | 'repository'
  | 'forge'
  | 'issuer'
  | 'build'
  | 'nobody';

export interface Doer {
  /** null for an operator on the machine, and for unauthenticated callers. */
  actor: { id: bigint; email: string } | null;
  via: Via;
  application: string | null;
  address: string | null;
  /** The Unix user of an operator who runs a command on the machine. */
  unixUser?: string;
}

/** Must contain no ids beyond 53 bits and no secrets. */
export type Facts = Record<string, unknown>;

/** The kind of subject, a dot, and the action. */
export type Action = `${string}.${string}`;

export interface Deed {
  action: Action;
  subject: { id: bigint | null; name: string };
  projectId?: bigint | undefined;
  accountId?: bigint | undefined;
  details?: Facts;
}

export async function recordAudit(trx: Transaction, ids: IdSource, by: Doer, deed: Deed): Promise<void> {
  const { action, subject, projectId, accountId, details = {} } = deed;
  const unixUser = by.unixUser === undefined ? {} : { unix_user: by.unixUser };
  const entry: AuditEntryRow = {
    id: ids.next(),
    created_at: BigInt(Date.now()),
    action,
    actor_id: by.actor?.id ?? null,
    actor_email: by.actor?.email ?? null,
    via: by.via,
    application: by.application,
    address: by.address,
    subject_id: subject.id,
    subject_name: subject.name,
    project_id: projectId ?? null,
    account_id: accountId ?? null,
    details: JSON.stringify({ ...unixUser, ...details }),
  };
  await trx.insertInto('audit_entries').values(entry).execute();
}

export function inBrowser(actor: { id: bigint; email: string } | null, address: string): Doer {
  return { actor: actor && { id: actor.id, email: actor.email }, via: 'session', application: null, address };
}

export function entryView(entry: AuditEntryRow) {
  const { id, action, actor_id: actorId, subject_id: subjectId, project_id: projectId } = entry;
  const [type = ''] = action.split('.', 1);
  return {
    id,
    id_str: String(id),
    created_at: timestamp(entry.created_at),
    action,
    actor: actorId === null ? null : { id: actorId, id_str: String(actorId), email: entry.actor_email ?? '' },
    via: entry.via,
    application: entry.application,
    address: entry.address,
    subject: { type, id: subjectId, id_str: textOf(subjectId), name: entry.subject_name },
    project_id: projectId,
    project_id_str: textOf(projectId),
    details: JSON.parse(entry.details) as Facts,
  };
}

function textOf(id: bigint | null): string {
  return id === null ? '' : String(id);
}

const entriesAtATime = 1000;

/** Oldest first, in small batches. */
export async function* entriesSince(db: Queries, since: bigint): AsyncGenerator<AuditEntryRow> {
  for (let last = -1n; ;) {
    const rows = await db
      .selectFrom('audit_entries')
      .selectAll()
      .where('id', '>', last)
      .where('created_at', '>=', since)
      .orderBy('id')
      .limit(entriesAtATime)
      .execute();
    yield* rows;
    const end = rows.at(-1);
    if (!end || rows.length < entriesAtATime) return;
    last = end.id;
  }
}
