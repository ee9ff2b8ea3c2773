import { sql } from 'kysely';
import { isUniqueViolation, type Queries } from '../db/open.ts';
import { ApiError, type FieldErrors } from '../../shared/errors.ts';

/** Names must be unique within these. Variables have a suite or a project. */
const uniqueWithin = {
  projects: 'owner_id',
  dependencies: 'owner_id',
  suites: 'project_id',
  deploy_strategies: 'project_id',
  environment_variables: 'suite_id',
} as const;

interface NameInQuestion {
  within: bigint;
  name: string | undefined;
  column?: string;
  except?: bigint;
}

export async function checkName(
  db: Queries,
  table: keyof typeof uniqueWithin,
  { within, name, column = uniqueWithin[table], except = -1n }: NameInQuestion,
): Promise<FieldErrors> {
  if (name === undefined) return {};
  const { rows } = await sql`
    select id from ${sql.table(table)}
    where ${sql.ref(column)} = ${within} and name = ${name} and id != ${except}
  `.execute(db);
  return rows.length > 0 ? { name: ['already_exists'] } : {};
}

/** Another caller may take the value after the check. Then the database refuses it. */
export async function orTaken<T>(write: Promise<T>, field = 'name'): Promise<T> {
  try {
    return await write;
  } catch (error) {
    throw isUniqueViolation(error) ? new ApiError('already_exists', field) : error;
  }
}
