import type { WithCaller, WithOrganisation } from '../api/call.ts';
import type { VisibleProject } from '../auth/projects.ts';
import { includes } from '../auth/roles.ts';
import type { Queries } from '../db/open.ts';
import type { Access, Role } from '../http/route.ts';
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
import { byQuery, recordRoutes } from './record-routes.ts';
import { inSuite, suites } from './suites.ts';

/** Variables belong to a suite and its builds, a project and all its suites, or an organisation and all its projects. */
interface Owner {
  column: 'project_id' | 'suite_id' | 'organisation_id';
  within: bigint;
}

interface InPath {
  project?: { id: bigint } | undefined;
  organisation?: { id: bigint } | undefined;
  suite?: { id: bigint } | undefined;
}

function ownerIn({ project, organisation, suite }: InPath): Owner {
  if (suite) return { column: 'suite_id', within: suite.id };
  if (project) return { column: 'project_id', within: project.id };
  if (!organisation) throw new Error('a variable belongs to a suite, a project or an organisation');
  return { column: 'organisation_id', within: organisation.id };
}

interface Roles extends WithCaller {
  project?: VisibleProject;
  organisation?: WithOrganisation['organisation'];
}

function may({ project, organisation }: Pick<Roles, 'project' | 'organisation'>, asked: Role): boolean {
  const role = project?.role ?? organisation?.role;
  return role !== undefined && includes(role, asked);
}

const variablesOf = (db: Queries, { column, within }: Owner) =>
  db.selectFrom('environment_variables').selectAll().where(column, '=', within);

/** Viewers see which variables there are, and not what they contain. */
function view(variable: EnvironmentVariableRow, vault: Vault, isShown = true) {
  const content = isShown ? vault.open(variable.content, contentLocation(variable.id)) : '';
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

function refuseRefs(call: Roles, { refs = [] }: { refs?: readonly string[] | undefined }): void {
  if (!may(call, 'maintainer') && refs.length > 0) throw new ApiError('unauthorized');
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

interface Kind<Path extends string> {
  of: Path;
  what: string;
  concerns: 'project' | 'organisation';
  access: Access;
}

function variableRoutes<const Path extends string>({ of, what, concerns, access }: Kind<Path>) {
  const variables = recordRoutes<Roles>(concerns)({
    path: `${of}/environment_variables` as const,
    name: 'environment_variable',
    access,
    reads: 'viewer',
    scope: concerns === 'organisation' ? 'organisations' : 'suites',
    fields: variableFields,
    answer: variableRecord,
    inside: loadOwner,
    rows: (call) => byQuery(variablesOf(call.db, ownerIn(call))),
    /** Only the owner sees a variable that is limited to refs. A collaborator could read it in a build of any ref. */
    maySee: ({ refs }, call) => may(call, 'maintainer') || refs === '[]',
    view: (variable, call) => view(variable, call.vault, may(call, 'developer')),
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
          const variable = {
            id,
            project_id: null,
            suite_id: null,
            organisation_id: null,
            [column]: within,
            ...fields,
            from_env: '',
          };
          await orTaken(db.insertInto('environment_variables').values(variable).execute());
          return writtenView(variable, vault);
        },
      },
    ),
    variables.show(`Fetch an environment variable of ${what}, in plain text`, { showsSecrets: true }),
    variables.change(`Change an environment variable of ${what}; builds that start later get it`, {
      changes: 'environment_variables',
      answer: writtenVariableRecord,
      async handle(call) {
        refuseRefs(call, call.input);
        const { db, environment_variable: variable, vault, input } = call;
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
  ...variableRoutes({
    of: '/projects/:project_id',
    what: 'a project, which all its suites have',
    concerns: 'project',
    access: 'developer',
  }),
  ...variableRoutes({
    of: '/projects/:project_id/suites/:suite_id',
    what: 'a suite',
    concerns: 'project',
    access: 'developer',
  }),
  ...variableRoutes({
    of: '/organisations/:organisation_id',
    what: 'an organisation, which all its projects have',
    concerns: 'organisation',
    access: 'maintainer',
  }),
];
