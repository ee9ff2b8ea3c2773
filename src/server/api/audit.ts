import type { Caller } from '../auth/callers.ts';
import { recordAudit, type Doer } from '../auth/audit.ts';
import type { Transaction } from '../db/open.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import { columnName, type FieldSet } from '../../shared/records/fields.ts';
import type { Audit, Route, Subject } from './route.ts';

interface Done {
  trx: Transaction;
  ids: IdSource;
  /** null if no user's program sent it. */
  address: string | null;
  call: {
    caller: Caller | undefined;
    project: { id: bigint; owner_id: bigint } | undefined;
    organisation?: { id: bigint } | undefined;
    account?: bigint | undefined;
    input: unknown;
  };
  answer: unknown;
}

export async function noteDone(route: Route, done: Done): Promise<void> {
  const { audit } = route;
  const { caller, project, organisation, account, input } = done.call;
  if (audit === undefined || audit === 'nothing' || !caller) return;
  const { action, subject: find, details } = audit as Audit<unknown>;
  const subject = find ? find(done.call) : subjectIn(done.answer);
  if (!subject) return;
  const changed = route.method === 'PUT' ? changedFields(route.body ?? {}, input as object, subject) : undefined;
  if (changed?.length === 0) return;
  const projectId = project?.id ?? (action.startsWith('project.') ? subject.id : undefined);
  await recordAudit(done.trx, done.ids, doerOf(caller, done.address), {
    action,
    subject: { id: subject.id, name: subject.name },
    projectId,
    accountId: project?.owner_id ?? organisation?.id ?? account,
    details: { ...(changed ? { changed } : {}), ...details?.(done.call) },
  });
}

export function doerOf({ id, email, via, application }: Caller, address: string | null): Doer {
  return { actor: { id, email }, via, application, address };
}

/** A user is named by the email address. */
function subjectIn(answer: unknown): Subject {
  const { id, name, email } = answer as { id: bigint; name?: string; email?: string };
  return { id, name: name ?? email ?? '' };
}

function changedFields(fields: FieldSet, input: object, before: object): string[] {
  const columns = before as Readonly<Record<string, unknown>>;
  const sent = input as Readonly<Record<string, unknown>>;
  return Object.keys(input).filter((name) => fields[name]?.toColumn(sent[name]) !== columns[columnName(name)]);
}
