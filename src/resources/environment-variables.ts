import { projectRoute } from '../api/route.ts';
import type { Queries } from '../db/open.ts';
import { sealedPlace, type EnvironmentVariableRow, type SuiteRow } from '../db/schema.ts';
import { sealIn } from '../db/sealing.ts';
import { isOrdinary } from '../shared/ordinary-words.ts';
import { hasForms } from '../shared/secret-forms.ts';
import type { Vault } from '../lib/vault.ts';
import { columnsOf, valuesIn } from '../records/fields.ts';
import { variableFields, variableRecord, writtenVariableRecord, type WrittenVariable } from '../records/suite.ts';
import { listOf } from '../records/schema.ts';
import { destroyed, destroyedAnswer, orNotFound, twin, type InProject } from './common.ts';
import { checkName, orTaken } from './names.ts';
import { inSuite, loadSuite } from './suites.ts';

function view(variable: EnvironmentVariableRow, vault: Vault) {
  const content = vault.open(variable.content, contentPlace(variable.id));
  return { ...twin('id', variable.id), ...valuesIn(variableFields, { ...variable, content }) };
}

/** The answer to a write shows the value, because the caller has just sent it. */
function writtenView(variable: EnvironmentVariableRow, vault: Vault): WrittenVariable {
  const seen = view(variable, vault);
  const hidesWords = seen.secret && hasForms(seen.content) && isOrdinary(seen.content);
  return hidesWords ? { ...seen, warning: hiddenWords } : seen;
}

const hiddenWords =
  'The content looks like ordinary words, and every place in the logs that says the same will be masked. ' +
  'If it is no secret, set secret to false.';

const contentPlace = (id: bigint): string => sealedPlace({ table: 'environment_variables', column: 'content' }, id);

async function loadVariable(
  call: InProject<'suite_id' | 'environment_variable_id'>,
): Promise<{ suite: SuiteRow; variable: EnvironmentVariableRow }> {
  const { suite } = await loadSuite(call);
  const query = call.db.selectFrom('environment_variables').selectAll().where('suite_id', '=', suite.id);
  const found = query.where('id', '=', call.params.environment_variable_id).executeTakeFirst();
  return { suite, variable: orNotFound(await found) };
}

/** From where documents took the contents of a suite's variables, by their identifiers. */
export async function sourcesOf(db: Queries, suiteId: bigint): Promise<Map<bigint, string>> {
  const query = db.selectFrom('environment_variables').select(['id', 'from_env']).where('suite_id', '=', suiteId);
  return new Map((await query.execute()).map(({ id, from_env: source }) => [id, source]));
}

export async function noteSource(trx: Queries, id: bigint, source: string): Promise<void> {
  await trx.updateTable('environment_variables').set({ from_env: source }).where('id', '=', id).execute();
}

export const routes = [
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/suites/:suite_id/environment_variables',
    access: 'both',
    scope: 'suites',
    summary: 'List the environment variables of a suite, in clear',
    answer: listOf(variableRecord),
    showsSecrets: true,
    load: loadSuite,
    async handle({ db, suite, vault }) {
      const query = db.selectFrom('environment_variables').selectAll().where('suite_id', '=', suite.id).orderBy('id');
      return (await query.execute()).map((variable) => view(variable, vault));
    },
  }),
  projectRoute({
    method: 'POST',
    path: '/projects/:project_id/suites/:suite_id/environment_variables',
    access: 'both',
    scope: 'suites',
    summary: 'Add an environment variable to a suite; it is stored encrypted, and masked in logs if it is secret',
    body: variableFields,
    creates: 'environment_variables',
    answer: writtenVariableRecord,
    load: loadSuite,
    verifyNames: ({ db, suite }, values) =>
      checkName(db, 'environment_variables', { within: suite.id, name: values.name }),
    audit: {
      action: 'environment_variable.created',
      details: ({ suite, input: { secret } }) => ({ ...inSuite({ suite }), secret }),
    },
    async handle({ db, suite, ids, vault, input }) {
      const id = ids.next();
      const content = await sealIn(db, vault, input.content, contentPlace(id));
      const variable = { id, suite_id: suite.id, ...columnsOf(variableFields, { ...input, content }), from_env: '' };
      await orTaken(db.insertInto('environment_variables').values(variable).execute());
      return writtenView(variable, vault);
    },
  }),
  projectRoute({
    method: 'PUT',
    path: '/projects/:project_id/suites/:suite_id/environment_variables/:environment_variable_id',
    access: 'both',
    scope: 'suites',
    summary: 'Change an environment variable; builds that begin later get it',
    body: variableFields,
    changes: 'environment_variables',
    answer: writtenVariableRecord,
    load: loadVariable,
    verifyNames: ({ db, variable }, values) =>
      checkName(db, 'environment_variables', { within: variable.suite_id, name: values.name, except: variable.id }),
    audit: {
      action: 'environment_variable.updated',
      subject: ({ variable }) => variable,
      details: inSuite,
    },
    async handle({ db, variable, vault, input }) {
      const sealed = input.content !== undefined && {
        content: await sealIn(db, vault, input.content, contentPlace(variable.id)),
        from_env: '', // a document says it again after this
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
    path: '/projects/:project_id/suites/:suite_id/environment_variables/:environment_variable_id',
    access: 'both',
    scope: 'suites',
    summary: 'Remove an environment variable',
    answer: destroyedAnswer,
    load: loadVariable,
    audit: { action: 'environment_variable.deleted', subject: ({ variable }) => variable, details: inSuite },
    async handle({ db, variable }) {
      await db.deleteFrom('environment_variables').where('id', '=', variable.id).execute();
      return destroyed;
    },
  }),
];
