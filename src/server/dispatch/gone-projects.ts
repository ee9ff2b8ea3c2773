import type { Runner } from '../auth/runners.ts';
import type { Database } from '../db/open.ts';

/**
 * Projects that are deleted or not served by the runner. Both get the same response, so a runner learns nothing about
 * other accounts.
 */
export async function goneProjects(db: Database, { boundAs }: Runner, projects: readonly string[]): Promise<string[]> {
  if (projects.length === 0) return [];
  const known = await db.read
    .selectFrom('projects')
    .select('id')
    .where('id', 'in', projects.map(BigInt))
    .$if(boundAs !== undefined, (query) =>
      query.where('owner_id', 'in', (of) =>
        of
          .selectFrom('runner_accounts')
          .select('account_id')
          .where('runner_id', '=', boundAs ?? 0n),
      ),
    )
    .execute();
  const still = new Set(known.map(({ id }) => String(id)));
  return projects.filter((project) => !still.has(String(BigInt(project))));
}
