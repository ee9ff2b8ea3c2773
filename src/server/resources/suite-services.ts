import type { Queries } from '../db/open.ts';
import type { FieldErrors } from '../../shared/errors.ts';
import type { StoredService } from '../../shared/records/service.ts';

/** Only the owner's dependencies are allowed: other accounts' would have to be pinned. */
export async function checkServices(
  { db, project }: { db: Queries; project: { owner_id: bigint } },
  { services: sent = [] }: { services?: readonly StoredService[] },
): Promise<FieldErrors> {
  const named = sent.flatMap(({ dependency_id: id }) => (id === '' ? [] : [BigInt(id)]));
  if (named.length === 0) return {};
  const owned = db.selectFrom('dependencies').select('id').where('owner_id', '=', project.owner_id);
  const found = new Set((await owned.where('id', 'in', named).execute()).map(({ id }) => String(id)));
  const wrong = sent.flatMap(({ dependency_id: id }, at) =>
    id === '' || found.has(id) ? [] : [[`services[${at}][dependency_id]`, ['not_found']]],
  );
  return Object.fromEntries(wrong) as FieldErrors;
}
