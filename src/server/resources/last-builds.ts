import { sql, type RawBuilder } from 'kysely';
import type { Queries } from '../db/open.ts';
import { withIdString } from './common.ts';

const stripLength = 20;

interface StripRequest {
  id: bigint;
  build_state: string;
  duration: number | null;
}

/** Of the default branch, or of all branches if that branch is unknown. The oldest first. */
export async function stripsOf(db: Queries, projects: readonly { id: bigint; default_branch: string }[]) {
  const found = new Map<bigint, StripRequest[]>();
  const [known, unknown] = [true, false].map((isKnown) =>
    projects.filter(({ default_branch: branch }) => (branch !== '') === isKnown).map(({ id }) => id),
  );
  const read = async (ids: bigint[] = [], condition = sql``): Promise<void> => {
    if (ids.length === 0) return;
    const rows = await db
      .selectFrom('projects as p')
      .select(['p.id', lastRequests(condition).as('requests')])
      .where('p.id', 'in', ids)
      .execute();
    for (const { id, requests } of rows) found.set(id, requests === null ? [] : requests.split(' ').map(stripRequest));
  };
  // The conditions repeat the index's. Together in one query, no database would use the index.
  await read(known, sql`and n.branch = p.default_branch and n.pull_request is null`);
  await read(unknown);
  return found;
}

/** The requests are joined into one text, so that a project stays one row. */
const lastRequests = (condition: RawBuilder<unknown>) => sql<string | null>`(
  select string_agg(s.request, ' ' order by s.id)
  from (
    select n.id, cast(n.id as text) || ':' || n.build_state || ':' || coalesce(cast(n.finished_at - n.started_at as text), '')
      as request
    from build_requests as n
    where n.project_id = p.id ${condition} and n.commit_id is not null and n.deploy_id is null
    order by n.id desc limit ${sql.lit(stripLength)}
  ) as s
)`;

function stripRequest(text: string): StripRequest {
  const [id = '', state = '', duration = ''] = text.split(':');
  return { id: BigInt(id), build_state: state, duration: duration === '' ? null : Number(duration) };
}

export function isRunning({ build_state: state }: { build_state: string }): boolean {
  return state === 'building';
}

export function barOf({ id, build_state: state, duration }: StripRequest, starts: ReadonlyMap<bigint, bigint>) {
  const start = starts.get(id);
  return {
    ...withIdString('id', id),
    build_state: state,
    duration_ms: start === undefined ? duration : Math.max(0, Date.now() - Number(start)),
  };
}

/** When the builds of running requests began, by request. */
export async function startsOf(db: Queries, requests: bigint[]): Promise<ReadonlyMap<bigint, bigint>> {
  if (requests.length === 0) return new Map();
  const rows = await db
    .selectFrom('builds')
    .select('build_request_id as id')
    .select((of) => of.fn.min('started_at').as('start'))
    .where('build_request_id', 'in', requests)
    .where('checks_id', 'is', null)
    .groupBy('build_request_id')
    .execute();
  return new Map(rows.flatMap(({ id, start }) => (start === null ? [] : [[id, start]])));
}
