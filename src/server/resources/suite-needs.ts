import type { Call } from '../api/call.ts';
import type { Queries, Transaction } from '../db/open.ts';
import type { ProjectRow, SuiteRow } from '../db/schema.ts';
import type { FieldErrors } from '../../shared/errors.ts';
import { needsOf } from '../lifecycle/chosen-suites.ts';

type Needing = Pick<SuiteRow, 'id' | 'name' | 'needs'>;

function suitesOf(db: Queries, projectId: bigint): Promise<Needing[]> {
  return db.selectFrom('suites').select(['id', 'name', 'needs']).where('project_id', '=', projectId).execute();
}

/** Names of suites by ID. Most projects have no needs, and then no query runs. */
export async function neededNames(
  db: Queries,
  suites: readonly Pick<SuiteRow, 'project_id' | 'needs'>[],
): Promise<ReadonlyMap<bigint, string>> {
  const needing = suites.find(({ needs }) => needs !== '[]');
  const all = needing ? await suitesOf(db, needing.project_id) : [];
  return new Map(all.map(({ id, name }) => [id, name]));
}

/** Locks the suites. Otherwise concurrent changes could form a cycle, or add a need for a suite while it is deleted. */
async function holdNeeds({ database, db }: { database: Call['database']; db: Queries }, projectId: bigint) {
  await database.holdRight(db as Transaction, 'suites', projectId);
}

type Writing = Pick<Call, 'database'> & { db: Queries; project: Pick<ProjectRow, 'id'> };

/** Each needed suite must be in the project, and must not need this suite. */
export async function checkNeeds(
  call: Writing,
  { needs = [] }: { needs?: readonly bigint[] },
  suite?: Pick<SuiteRow, 'id'>,
): Promise<FieldErrors> {
  if (needs.length === 0) return {};
  await holdNeeds(call, call.project.id);
  const all = new Map((await suitesOf(call.db, call.project.id)).map((one) => [one.id, one]));
  if (needs.some((id) => !all.has(id))) return { needs: ['not_found'] };
  const reached = new Set(needs);
  for (const id of reached) for (const next of needsOf(all.get(id) ?? { needs: '[]' })) reached.add(next);
  return suite && reached.has(suite.id) ? { needs: ['invalid_format'] } : {};
}

/** The answer stays correct until the end of the transaction, because the lock prevents new needs. */
export async function isNeeded(call: Writing, { id }: Pick<SuiteRow, 'id'>): Promise<boolean> {
  await holdNeeds(call, call.project.id);
  return (await suitesOf(call.db, call.project.id)).some((other) => needsOf(other).includes(id));
}
