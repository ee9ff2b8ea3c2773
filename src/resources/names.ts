import { sql } from 'kysely';
import { isUniqueViolation, type Queries } from '../db/open.ts';
import { ApiError, type FieldErrors } from '../errors.ts';

/** Names that must be unique, and within what. */
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
  /** The record that is being changed may keep its own name. */
  except?: bigint;
}

/** Reports a name that another record has. */
export async function checkName(
  db: Queries,
  table: keyof typeof uniqueWithin,
  { within, name, except = -1n }: NameInQuestion,
): Promise<FieldErrors> {
  if (name === undefined) return {};
  const { rows } = await sql`
    select id from ${sql.table(table)}
    where ${sql.ref(uniqueWithin[table])} = ${within} and name = ${name} and id != ${except}
  `.execute(db);
  return rows.length > 0 ? { name: ['already_exists'] } : {};
}

/** Between the check and the write, somebody else may have taken the value: the store has the last word. */
export async function orTaken<T>(write: Promise<T>, field = 'name'): Promise<T> {
  try {
    return await write;
  } catch (error) {
    throw asTaken(field)(error);
  }
}

/** What it means that the store refuses a value because another record has it. */
export function asTaken(field: string): <E>(error: E) => E | ApiError {
  return (error) => (isUniqueViolation(error) ? new ApiError('already_exists', field) : error);
}
