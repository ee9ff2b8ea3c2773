import type { Queries } from '../db/open.ts';
import type { FieldErrors } from '../../shared/errors.ts';
import type { RawGroup } from '../../shared/records/raw.ts';
import { dependenciesIn } from '../../shared/records/service.ts';

/** Services may use only the owner's dependencies. Other accounts' dependencies would have to be pinned. */
export async function checkServices({
  db,
  project,
  sent: { services },
}: {
  db: Queries;
  project: { owner_id: bigint };
  sent: RawGroup;
}): Promise<FieldErrors> {
  const named = dependenciesIn(services);
  if (named.length === 0) return {};
  const owned = db.selectFrom('dependencies').select('id').where('owner_id', '=', project.owner_id);
  const ids = named.map(({ id }) => BigInt(id));
  const found = new Set((await owned.where('id', 'in', ids).execute()).map(({ id }) => String(id)));
  const unknown = named.filter(({ id }) => !found.has(id));
  return Object.fromEntries(unknown.map(({ at }) => [`services[${at}][dependency_id]`, ['not_found']]));
}
