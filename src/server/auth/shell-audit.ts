import type { Transaction } from '../db/open.ts';
import type { ShellRow } from '../db/schema.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import { recordAudit, type Action, type Facts, type Via } from './audit.ts';

/** Recorded under the name of the user who opened the shell. The typed text is never recorded. */
export async function recordShell(
  trx: Transaction,
  ids: IdSource,
  { id, build_id: buildId, project_id: projectId, account_id: account, via }: ShellRow,
  { action, details = {} }: { action: Action; details?: Facts },
): Promise<void> {
  const people = trx.selectFrom('users').select(['id', 'email']).where('id', '=', account);
  const actor = (await people.executeTakeFirst()) ?? null;
  const by = { actor, via: via as Via, application: null, address: null };
  const subject = { id, name: String(buildId) };
  await recordAudit(trx, ids, by, { action, subject, projectId, details });
}
