import type { Queries } from '../db/open.ts';
import { sealedLocation, type EnvironmentVariableRow, type SuiteRow } from '../db/schema.ts';
import { sealIn } from '../db/sealing.ts';
import { ApiError } from '../../shared/errors.ts';
import { isOrdinary } from '../../shared/domain/ordinary-words.ts';
import { hasForms } from '../../shared/domain/secret-forms.ts';
import type { Vault } from '../../shared/lib/vault.ts';
import { columnsOf, valuesIn } from '../../shared/records/fields.ts';
import {
  variableFields,
  variableRecord,
  writtenVariableRecord,
  type WrittenVariable,
} from '../../shared/records/suite.ts';
import { withIdString } from './common.ts';
import { orTaken } from './names.ts';
import { byQuery, projectRecords } from './record-routes.ts';
import { inSuite, suites } from './suites.ts';

/** Variables belong to a suite and its builds, or to a project and all its suites. */
interface Owner {
  column: 'project_id' | 'suite_id';
  within: bigint;
}

function ownerIn({ project, suite }: { project: { id: bigint }; suite?: { id: bigint } | undefined }): Owner {
  return suite ? { column: 'suite_id', within: suite.id } : { column: 'project_id', within: project.id };
}

const variablesOf = (db: Queries, { column, within }: Owner) =>
  db.selectFrom('environment_variables').selectAll().where(column, '=', within);

function view(variable: EnvironmentVariableRow, vault: Vault) {
  const content = vault.open(variable.content, contentLocation(variable.id));
  return { ...withIdString('id', variable.id), ...valuesIn(variableFields, { ...variable, content }) };
}

/** This response shows the value, because the caller has just sent it. */
function writtenView(variable: EnvironmentVariableRow, vault: Vault): WrittenVariable {
  const seen = view(variable, vault);
  const hidesWords = seen.secret && hasForms(seen.content) && isOrdinary(seen.content);
  return hidesWords ? { ...seen, warning: hiddenWords } : seen;
}

const hiddenWords =
  'The content looks like ordinary words, and every occurrence in logs will be masked. ' +
  'If it is not a secret, set secret to false.';

const contentLocation = (id: bigint): string =>
  sealedLocation({ table: 'environment_variables', column: 'content' }, id);

/** Without a suite in the path, the variables are the project's own. */
async function loadOwner(call: { params: object }): Promise<{ suite?: SuiteRow }> {
  return 'suite_id' in call.params ? suites.load(call as Parameters<typeof suites.load>[0]) : {};
}

function refuseRefs(
  { project }: { project: { owned: boolean } },
  { refs = [] }: { refs?: readonly string[] | undefined },
): void {
  if (!project.owned && refs.length > 0) throw new ApiError('unauthorized');
}

/** The names of the environment variables that documents took values from, by variable ID. */
export async function sourcesOf(
  db: Queries,
  { projectId, suiteId }: { projectId: bigint; suiteId: bigint | undefined },
): Promise<Map<bigint, string>> {
  const suite = suiteId === undefined ? undefined : { id: suiteId };
  const rows = await variablesOf(db, ownerIn({ project: { id: projectId }, suite })).execute();
  return new Map(rows.map(({ id, from_env: source }) => [id, source]));
}

export async function noteSource(trx: Queries, id: bigint, source: string): Promise<void> {
  await trx.updateTable('environment_variables').set({ from_env: source }).where('id', '=', id).execute();
}

function variableRoutes<const Path extends string>(of: Path, what: string) {
  const variables = projectRecords({
    path: `${of}/environment_variables` as const,
    name: 'environment_variable',
    access: 'both',
    scope: 'suites',
    fields: variableFields,
    answer: variableRecord,
    inside: loadOwner,
    rows: (call) => byQuery(variablesOf(call.db, ownerIn(call))),
    /** Only the owner sees a variable that is limited to refs. A collaborator could read it in a build of any ref. */
    maySee: ({ refs }, { project }) => project.owned || refs === '[]',
    view: (variable, { vault }) => view(variable, vault),
    namesIn: (call) => ({ table: 'environment_variables', ...ownerIn(call) }),
    details: ({ suite }) => (suite ? inSuite({ suite }) : {}),
  });
  return [
    variables.list(
      `List the environment variables of ${what}, in plain text; only the owner gets those that are limited to refs`,
      { showsSecrets: true },
    ),
    variables.create(
      `Add an environment variable to ${what}; it is stored encrypted, and masked in logs if it is secret`,
      {
        creates: 'environment_variables',
        answer: writtenVariableRecord,
        details: ({ input }) => ({ secret: input.secret }),
        async handle(call) {
          refuseRefs(call, call.input);
          const { db, ids, vault, input } = call;
          const id = ids.next();
          const content = await sealIn(db, vault, input.content, contentLocation(id));
          const fields = columnsOf(variableFields, { ...input, content });
          const { column, within } = ownerIn(call);
          const variable = { id, project_id: null, suite_id: null, [column]: within, ...fields, from_env: '' };
          await orTaken(db.insertInto('environment_variables').values(variable).execute());
          return writtenView(variable, vault);
        },
      },
    ),
    variables.show(`Fetch an environment variable of ${what}, in plain text`, { showsSecrets: true }),
    variables.change(`Change an environment variable of ${what}; builds that start later get it`, {
      changes: 'environment_variables',
      answer: writtenVariableRecord,
      async handle({ db, project, environment_variable: variable, vault, input }) {
        refuseRefs({ project }, input);
        const sealed = input.content !== undefined && {
          content: await sealIn(db, vault, input.content, contentLocation(variable.id)),
          from_env: '', // a document sets it again afterwards
        };
        const changed = { ...columnsOf(variableFields, input), ...sealed };
        if (Object.keys(changed).length > 0) {
          await orTaken(db.updateTable('environment_variables').set(changed).where('id', '=', variable.id).execute());
        }
        return writtenView({ ...variable, ...changed }, vault);
      },
    }),
    variables.remove(`Remove an environment variable of ${what}`, {
      handle: ({ db, environment_variable: { id } }) =>
        db.deleteFrom('environment_variables').where('id', '=', id).execute(),
    }),
  ];
}

export const routes = [
  ...variableRoutes('/projects/:project_id', 'a project, which all its suites have'),
  ...variableRoutes('/projects/:project_id/suites/:suite_id', 'a suite'),
];
