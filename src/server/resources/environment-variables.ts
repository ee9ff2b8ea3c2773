import { projectRoute } from '../api/route.ts';
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
import { listOf } from '../../shared/records/schema.ts';
import { destroyed, destroyedAnswer, orNotFound, withIdString, type InProject } from './common.ts';
import { checkName, orTaken } from './names.ts';
import { inSuite, loadSuite } from './suites.ts';

/** A suite has variables for its builds, and a project for all its suites. */
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
  'The content looks like ordinary words, and every place in the logs that says the same will be masked. ' +
  'If it is no secret, set secret to false.';

const contentLocation = (id: bigint): string =>
  sealedLocation({ table: 'environment_variables', column: 'content' }, id);

/** Without a suite in the path, the variables are the project's own. */
async function loadOwner(call: Call): Promise<{ suite?: SuiteRow }> {
  return 'suite_id' in call.params ? loadSuite(call as InProject<'suite_id'>) : {};
}

type Call = Omit<InProject<never>, 'params' | 'project'> & { params: object; project: { id: bigint; owned: boolean } };

async function loadVariable(call: Call): Promise<{ suite?: SuiteRow; variable: EnvironmentVariableRow }> {
  const { suite } = await loadOwner(call);
  const { environment_variable_id: id } = call.params as Record<'environment_variable_id', bigint>;
  const query = variablesOf(call.db, ownerIn({ ...call, suite })).where('id', '=', id);
  const variable = orNotFound(await query.executeTakeFirst());
  if (!maySee(call, variable)) throw new ApiError('unauthorized');
  return { ...(suite && { suite }), variable };
}

/** Only the owner sees a variable that is limited to refs: a collaborator could read it in a build of any ref. */
function maySee({ project }: Pick<Call, 'project'>, { refs }: Pick<EnvironmentVariableRow, 'refs'>): boolean {
  return project.owned || refs === '[]';
}

function refuseRefs({ project }: Pick<Call, 'project'>, { refs = [] }: { refs?: readonly string[] | undefined }): void {
  if (!project.owned && refs.length > 0) throw new ApiError('unauthorized');
}

/** The environment variables from which documents took contents, by ID of a variable. */
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

const detailsOf = ({ suite }: { suite?: SuiteRow }) => (suite ? inSuite({ suite }) : {});

function variableRoutes<const Path extends string>(of: Path, what: string) {
  const list = `${of}/environment_variables` as const;
  const one = `${list}/:environment_variable_id` as const;
  return [
    projectRoute({
      method: 'GET',
      path: list,
      access: 'both',
      scope: 'suites',
      summary: `List the environment variables of ${what}, in clear; only the owner gets those that are limited to refs`,
      answer: listOf(variableRecord),
      showsSecrets: true,
      load: loadOwner,
      async handle(call) {
        const query = variablesOf(call.db, ownerIn(call)).orderBy('id');
        const seen = (await query.execute()).filter((variable) => maySee(call, variable));
        return seen.map((variable) => view(variable, call.vault));
      },
    }),
    projectRoute({
      method: 'POST',
      path: list,
      access: 'both',
      scope: 'suites',
      summary: `Add an environment variable to ${what}; it is stored encrypted, and masked in logs if it is secret`,
      body: variableFields,
      creates: 'environment_variables',
      answer: writtenVariableRecord,
      load: loadOwner,
      verifyNames: (call, { name }) => checkName(call.db, 'environment_variables', { ...ownerIn(call), name }),
      audit: {
        action: 'environment_variable.created',
        details: (call) => ({ ...detailsOf(call), secret: call.input.secret }),
      },
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
    }),
    projectRoute({
      method: 'GET',
      path: one,
      access: 'both',
      scope: 'suites',
      summary: `Fetch an environment variable of ${what}, in clear`,
      answer: variableRecord,
      showsSecrets: true,
      load: loadVariable,
      handle: async ({ variable, vault }) => view(variable, vault),
    }),
    projectRoute({
      method: 'PUT',
      path: one,
      access: 'both',
      scope: 'suites',
      summary: `Change an environment variable of ${what}; builds that begin later get it`,
      body: variableFields,
      changes: 'environment_variables',
      answer: writtenVariableRecord,
      load: loadVariable,
      verifyNames: (call, { name }) =>
        checkName(call.db, 'environment_variables', { ...ownerIn(call), name, except: call.variable.id }),
      audit: {
        action: 'environment_variable.updated',
        subject: ({ variable }) => variable,
        details: detailsOf,
      },
      async handle({ db, project, variable, vault, input }) {
        refuseRefs({ project }, input);
        const sealed = input.content !== undefined && {
          content: await sealIn(db, vault, input.content, contentLocation(variable.id)),
          from_env: '', // a document sets it again after this
        };
        const changed = { ...columnsOf(variableFields, input), ...sealed };
        if (Object.keys(changed).length > 0) {
          await orTaken(db.updateTable('environment_variables').set(changed).where('id', '=', variable.id).execute());
        }
        return writtenView({ ...variable, ...changed }, vault);
      },
    }),
    projectRoute({
      method: 'DELETE',
      path: one,
      access: 'both',
      scope: 'suites',
      summary: `Remove an environment variable of ${what}`,
      answer: destroyedAnswer,
      load: loadVariable,
      audit: { action: 'environment_variable.deleted', subject: ({ variable }) => variable, details: detailsOf },
      async handle({ db, variable }) {
        await db.deleteFrom('environment_variables').where('id', '=', variable.id).execute();
        return destroyed;
      },
    }),
  ];
}

export const routes = [
  ...variableRoutes('/projects/:project_id', 'a project, which all its suites have'),
  ...variableRoutes('/projects/:project_id/suites/:suite_id', 'a suite'),
];
