import type { Queries } from '../db/open.ts';

/** Whether one of these builds is of a pull request from a fork. */
export async function hasFork(db: Queries, builds: readonly string[]): Promise<boolean> {
  if (builds.length === 0) return false;
  const found = await db
    .selectFrom('builds')
    .innerJoin('build_requests', 'build_requests.id', 'builds.build_request_id')
    .select('builds.id')
    .where('builds.id', 'in', builds.map(BigInt))
    .where('build_requests.from_fork', '=', 1)
    .limit(1)
    .executeTakeFirst();
  return found !== undefined;
}
