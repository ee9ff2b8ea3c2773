import { sql } from 'kysely';
import { isUniqueViolation, type Queries } from '../db/open.ts';
import { ApiError, type FieldErrors } from '../../shared/errors.ts';

export interface NameScope {
  table: 'projects' | 'dependencies' | 'suites' | 'deploy_strategies' | 'environment_variables';
  column: 'owner_id' | 'project_id' | 'suite_id' | 'organisation_id';
  within: bigint;
}

export async function checkName(
  db: Queries,
  { table, column, within }: NameScope,
  name: string | undefined,
  except = -1n,
): Promise<FieldErrors> {
  if (name === undefined) return {};
  const { rows } = await sql`
    select id from ${sql.table(table)}
    where ${sql.ref(column)} = ${within} and name = ${name} and id != ${except}
  `.execute(db);
  return rows.length > 0 ? { name: ['already_exists'] } : {};
}

/** Reports a taken name after a write. Another caller may take the name between the check and the write. */
export async function orTaken<T>(write: Promise<T>, field = 'name'): Promise<T> {
  try {
    return await write;
  } catch (error) {
    throw isUniqueViolation(error) ? new ApiError('already_exists', field) : error;
  }
}
