import { allRows } from '../api/pages.ts';
import type { Call, WithCaller } from '../api/call.ts';
import { projectRoute } from '../api/route.ts';
import type { Queries, Transaction } from '../db/open.ts';
import type { SuiteRow } from '../db/schema.ts';
import { ApiError, type FieldErrors } from '../../shared/errors.ts';
import { most } from '../../shared/domain/bounds.ts';
import { imageBuildsOff } from '../../shared/domain/image-builds.ts';
import { mapYielding } from '../../shared/lib/event-loop.ts';
import { mostVariantsOf } from '../../shared/domain/matrix.ts';
import { retagBuilds } from '../lifecycle/builds.ts';
import { renameCaches } from '../outputs/caches.ts';
import { needsOf } from '../lifecycle/chosen-suites.ts';
import { cancelWaitingBuilds } from '../lifecycle/deleted-suites.ts';
import { gatesOfFile } from '../lifecycle/gates.ts';
import { columnsOf, valuesIn, type ValuesOf } from '../../shared/records/fields.ts';
import {
  checkCommand,
  checkRoot,
  checkVariants,
  matrixFields,
  suiteFields,
  suiteRecord,
  type Suite,
} from '../../shared/records/suite.ts';
import { listOf } from '../../shared/records/schema.ts';
import type { StoredService } from '../../shared/records/service.ts';
import { changesAny, checkApprovers } from './approvals.ts';
import { destroyed, destroyedAnswer, orNotFound, withIdString, writeContextOf, type InProject } from './common.ts';
import { checkName, orTaken } from './names.ts';
import { refuseGuarded } from './guarded-suites.ts';
import { isDeployed } from './deploy-strategies.ts';
import { checkFiles } from './suite-files.ts';
import { checkServices } from './suite-services.ts';
import { checkNeeds, isNeeded, neededNames } from './suite-needs.ts';

function view(suite: SuiteRow, names: ReadonlyMap<bigint, string>): Suite {
  const needs = needsOf(suite).map((id) => ({ ...withIdString('id', id), name: names.get(id) ?? '' }));
  const files = withIdString('files_from_id', suite.files_from_id);
  const { services, ...values } = valuesIn(suiteFields, suite);
  return { ...withIdString('id', suite.id), ...values, services: services.map(serviceView), needs, ...files };
}

function serviceView(service: StoredService): Suite['services'][number] {
  const { dependency_id: id } = service;
  return { ...service, ...withIdString('dependency_id', id === '' ? null : BigInt(id)) };
}

async function viewOf(db: Queries, suite: SuiteRow): Promise<Suite> {
  return view(suite, await neededNames(db, [suite]));
}

export async function loadSuite(call: InProject<'suite_id'>): Promise<{ suite: SuiteRow }> {
  const { db, project, params } = call;
  const query = db.selectFrom('suites').selectAll().where('id', '=', params.suite_id);
  return { suite: orNotFound(await query.where('project_id', '=', project.id).executeTakeFirst()) };
}

export function inSuite({ suite }: { suite: SuiteRow }) {
  return { suite: suite.name, suite_id_str: String(suite.id) };
}

/** One request builds all combinations of all suites, so all suites of a project share a limit. */
async function holdVariants(db: Queries, project: { id: bigint }, changed: Partial<SuiteRow>): Promise<void> {
  if (changed.matrix === undefined && changed.matrix_include === undefined) return;
  const rows = await db
    .selectFrom('suites')
    .select(['matrix', 'matrix_include'])
    .where('project_id', '=', project.id)
    .where((of) => of.or([of('matrix', '<>', '[]'), of('matrix_include', '<>', '[]')]))
    .execute();
  const { matrix, matrix_include } = matrixFields;
  const counts = rows.map((row) => mostVariantsOf(valuesIn({ matrix, matrix_include }, row)));
  if (counts.reduce((sum, count) => sum + count, 0) > most.variantsOfProject) throw new ApiError('is_reserved');
}

type Sent = Partial<ValuesOf<typeof suiteFields>>;

const isFile = ({ caller }: WithCaller): boolean => caller.via === 'repository';

function checkTimeout({ buildTimeout }: { buildTimeout: number }, { timeout = 0 }: Sent): FieldErrors {
  return timeout > buildTimeout ? { timeout: ['invalid_format'] } : {};
}

/** The operator decides about the kernel features that image builds need. */
function refuseImageBuilds({ imageBuilds, input }: Pick<Call, 'imageBuilds'> & { input: Sent }): void {
  if (input.builds_images !== true || imageBuilds) return;
  throw ApiError.inWords('invalid_format', 'builds_images', imageBuildsOff);
}

/** A suite that a deploy strategy runs stays manual. Otherwise it would run for every commit too. */
async function checkManual(
  { db, database, project, suite }: Pick<Call, 'database'> & { db: Queries; project: { id: bigint }; suite: SuiteRow },
  { manual = true }: Sent,
): Promise<FieldErrors> {
  if (manual || suite.manual === 0) return {};
  await database.holdRight(db as Transaction, 'suites', project.id); // no strategy begins to run it meanwhile
  return (await isDeployed(db, suite)) ? { manual: ['invalid_format'] } : {};
}

function refuseGates({ owned }: { owned: boolean }, changed: Partial<SuiteRow>, stored: Partial<SuiteRow>): void {
  if (!owned && changesAny(['approval', 'approvers'], changed, stored)) throw new ApiError('unauthorized');
}

/** A sent command replaces the steps, and vice versa. */
function replacing({ command, steps }: Sent): Pick<Sent, 'command' | 'steps'> {
  if (command !== undefined && command !== '' && steps === undefined) return { steps: [] };
  return steps !== undefined && steps.length > 0 && command === undefined ? { command: '' } : {};
}

export const routes = [
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/suites',
    access: 'both',
    scope: 'suites',
    summary: 'List the suites of a project',
    answer: listOf(suiteRecord),
    async handle({ db, project }) {
      const suites = await allRows(db.selectFrom('suites').selectAll().where('project_id', '=', project.id), 'id');
      const names = await neededNames(db, suites);
      return mapYielding(suites, (suite) => view(suite, names));
    },
  }),
  projectRoute({
    method: 'POST',
    path: '/projects/:project_id/suites',
    access: 'both',
    scope: 'suites',
    summary: 'Create a suite',
    body: suiteFields,
    creates: 'suites',
    answer: suiteRecord,
    verify: async (call, values) => ({
      ...checkTimeout(call, values),
      ...checkCommand(values),
      ...checkRoot(values),
      ...(await checkNeeds(call, values)),
      ...(await checkFiles(call, values)),
      ...(await checkServices(call)),
      ...checkVariants(values),
      ...(await checkApprovers(call.db, call.project, values.approvers)),
    }),
    verifyNames: ({ db, project }, values) => checkName(db, 'suites', { within: project.id, name: values.name }),
    audit: { action: 'suite.created' },
    async handle(call) {
      refuseImageBuilds(call);
      const { db, project, ids, input } = call;
      const columns = columnsOf(suiteFields, input);
      const gates_of_file = gatesOfFile(columns, isFile(call));
      const suite = { id: ids.next(), project_id: project.id, ...columns, gates_of_file };
      refuseGates(project, suite, { approval: 0, approvers: '[]' });
      await refuseGuarded(call, suite);
      await orTaken(db.insertInto('suites').values(suite).execute());
      await holdVariants(db, project, suite);
      return viewOf(db, suite);
    },
  }),
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/suites/:suite_id',
    access: 'both',
    scope: 'suites',
    summary: 'Fetch a suite',
    answer: suiteRecord,
    load: loadSuite,
    handle: async ({ db, suite }) => viewOf(db, suite),
  }),
  projectRoute({
    method: 'PUT',
    path: '/projects/:project_id/suites/:suite_id',
    access: 'both',
    scope: 'suites',
    summary: 'Change a suite; one that a deploy strategy runs stays manual',
    body: suiteFields,
    changes: 'suites',
    answer: suiteRecord,
    load: loadSuite,
    verify: async (call, values) => ({
      ...checkTimeout(call, values),
      ...checkCommand({ ...valuesIn(suiteFields, call.suite), ...values, ...replacing(values) }),
      ...checkRoot(values, valuesIn(suiteFields, call.suite)),
      ...(await checkNeeds(call, values, call.suite)),
      ...(await checkFiles(call, values, call.suite)),
      ...(await checkServices(call)),
      ...(await checkManual(call, values)),
      ...checkVariants(values, valuesIn(matrixFields, call.suite)),
      ...(await checkApprovers(call.db, call.project, values.approvers)),
    }),
    verifyNames: ({ db, suite }, values) =>
      checkName(db, 'suites', { within: suite.project_id, name: values.name, except: suite.id }),
    audit: { action: 'suite.updated', subject: ({ suite }) => suite },
    async handle(call) {
      refuseImageBuilds(call);
      const { db, suite, project } = call;
      const changed = columnsOf(suiteFields, { ...call.input, ...replacing(call.input) });
      refuseGates(project, changed, suite);
      await refuseGuarded(call, changed, suite);
      const { name = suite.name, tags = suite.tags } = changed;
      // First waiting builds, then caches, then the suite: the order of locks in builds (db/lock-order.ts).
      if (tags !== suite.tags)
        await retagBuilds(writeContextOf(call), { accountId: project.owner_id, suiteId: suite.id, tags });
      if (name !== suite.name)
        await renameCaches(writeContextOf(call), { projectId: project.id, suiteId: suite.id, name });
      if (Object.keys(changed).length > 0) {
        const set = { ...changed, gates_of_file: gatesOfFile(changed, isFile(call), suite) };
        await orTaken(db.updateTable('suites').set(set).where('id', '=', suite.id).execute());
      }
      await holdVariants(db, project, changed);
      return viewOf(db, { ...suite, ...changed });
    },
  }),
  projectRoute({
    method: 'DELETE',
    path: '/projects/:project_id/suites/:suite_id',
    access: 'users',
    scope: 'suites',
    summary:
      'Delete a suite that no other needs and no deploy strategy runs; its builds stay, those that wait are cancelled',
    answer: destroyedAnswer,
    load: loadSuite,
    audit: { action: 'suite.deleted', subject: ({ suite }) => suite },
    async handle(call) {
      const { db, suite } = call;
      if ((await isNeeded(call, suite)) || (await isDeployed(db, suite)))
        throw new ApiError('resource_temporary_unavailable');
      await cancelWaitingBuilds(writeContextOf(call), suite.project_id, [suite.id]);
      await db.deleteFrom('suites').where('id', '=', suite.id).execute();
      return destroyed;
    },
  }),
];
