import type { Queries } from '../db/open.ts';
import type { UserRow } from '../db/schema.ts';

/** The projects that a user sees, as `p`. As in the API, an account that does not pay sees only projects of others. */
export function visibleTo(db: Queries, { id, billing }: Readonly<UserRow>) {
  const visible = db
    .selectFrom('projects as p')
    .where((where) =>
      where.or([
        where('p.owner_id', '=', id),
        where('p.id', 'in', where.selectFrom('collaborators').select('project_id').where('user_id', '=', id)),
      ]),
    );
  return billing === 'ok' ? visible : visible.where('p.owner_id', '!=', id);
}
