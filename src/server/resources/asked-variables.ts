import { requireScope, type Caller } from '../auth/callers.ts';
import type { Queries } from '../db/open.ts';
import type { ProjectRow } from '../db/schema.ts';
import type { FieldErrors } from '../../shared/errors.ts';
import { wrongAnswers } from '../../shared/records/parameter.ts';
import { projectFields } from '../../shared/records/project.ts';

interface Asking {
  db: Queries;
  caller: Caller;
  project: Pick<ProjectRow, 'id' | 'owner_id' | 'parameters'>;
}

/** The variables of a request cannot replace a secret, and must fit the project's parameters. */
export async function checkVariables(
  { db, caller, project }: Asking,
  variables: Readonly<Record<string, string>>,
  { mayLack = false } = {},
): Promise<FieldErrors> {
  const names = Object.keys(variables);
  // A variable can contain a program, and a refusal shows which names are secrets.
  if (names.length > 0) requireScope(caller, 'suites');
  const asked = projectFields.parameters.fromColumn(project.parameters);
  const secrets = await secretsAmong(db, project, [...names, ...asked.map(({ name }) => name)]);
  const open = asked.filter(({ name }) => !secrets.has(name));
  const taken = names.filter((name) => secrets.has(name));
  return {
    ...wrongAnswers(open, variables, mayLack),
    ...Object.fromEntries(taken.map((name) => [`variables[${name}]`, ['invalid_format'] as const])),
  };
}

/** Secrets of the project, of its suites and of its organisation. */
export async function secretsAmong(
  db: Queries,
  { id, owner_id: owner }: Pick<ProjectRow, 'id' | 'owner_id'>,
  names: readonly string[],
): Promise<ReadonlySet<string>> {
  if (names.length === 0) return new Set();
  const secrets = await db
    .selectFrom('environment_variables')
    .leftJoin('suites', 'suites.id', 'environment_variables.suite_id')
    .select('environment_variables.name')
    .where('secret', '=', 1)
    .where('environment_variables.name', 'in', names)
    .where((either) =>
      either.or([
        either('environment_variables.project_id', '=', id),
        either('environment_variables.organisation_id', '=', owner),
        either('suites.project_id', '=', id),
      ]),
    )
    .execute();
  return new Set(secrets.map(({ name }) => name));
}
