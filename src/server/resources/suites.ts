import type { Call, WithCaller } from '../api/call.ts';
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
import { allowReuse, renameStop, stoppedSuites } from '../lifecycle/reuse-checks.ts';
import { forgetSlowSteps } from '../lifecycle/slow-steps.ts';
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
import type { StoredService } from '../../shared/records/service.ts';
import { checkInVariants } from '../../shared/records/variant-settings.ts';
import { changesAny, checkApprovers } from './approvals.ts';
import { withIdString, writeContextOf } from './common.ts';
import { orTaken } from './names.ts';
import { refuseGuarded } from './guarded-suites.ts';
import { isDeployed } from './deploy-strategies.ts';
import { byQuery, projectRecords } from './record-routes.ts';
import { checkFiles, replacingFiles } from './suite-files.ts';
import { checkServices } from './suite-services.ts';
import { checkNeeds, isNeeded, neededNames } from './suite-needs.ts';

interface Beside {
  names: ReadonlyMap<bigint, string>;
  /** Suites that are not reused any more, whatever is set. */
  stopped: ReadonlySet<string>;
}

function view(suite: SuiteRow, { names, stopped }: Beside): Suite {
  const needs = needsOf(suite).map((id) => ({ ...withIdString('id', id), name: names.get(id) ?? '' }));
  const files = withIdString('files_from_id', suite.files_from_id);
  const { services, files_from: from, ...values } = valuesIn(suiteFields, suite);
  const files_from = from.map((one) => {
    const id = one.includes('$') ? null : BigInt(one);
    return { ...withIdString('id', id), name: id === null ? one : (names.get(id) ?? '') };
  });
  const parts = { services: services.map(serviceView), needs, files_from };
  const reuse = stopped.has(suite.name) ? 'off' : values.reuse;
  return { ...withIdString('id', suite.id), ...values, reuse, ...parts, ...files };
}

function serviceView(service: StoredService): Suite['services'][number] {
  const { dependency_id: id } = service;
  return { ...service, ...withIdString('dependency_id', id === '' ? null : BigInt(id)) };
}

async function beside(db: Queries, projectId: bigint, suites: readonly SuiteRow[]): Promise<Beside> {
  return { names: await neededNames(db, suites), stopped: await stoppedSuites(db, projectId) };
}

async function viewOf(db: Queries, suite: SuiteRow): Promise<Suite> {
  return view(suite, await beside(db, suite.project_id, [suite]));
}

export function inSuite({ suite }: { suite: SuiteRow }) {
  return { suite: suite.name, suite_id_str: String(suite.id) };
}

/** A single request can build all combinations of all suites, so a project's suites share one limit. */
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

/** Only the server's operator can allow the kernel features that image builds need. */
function refuseImageBuilds({ imageBuilds, input }: Pick<Call, 'imageBuilds'> & { input: Sent }): void {
  if (input.builds_images !== true || imageBuilds) return;
  throw ApiError.inWords('invalid_format', 'builds_images', imageBuildsOff);
}

/** A suite that a deploy strategy runs must stay manual. Otherwise it would run for every commit too. */
async function checkManual(
  { db, database, project }: Pick<Call, 'database'> & { db: Queries; project: { id: bigint } },
  { manual = true }: Sent,
  suite?: SuiteRow,
): Promise<FieldErrors> {
  if (manual || !suite || suite.manual === 0) return {};
  await database.holdRight(db as Transaction, 'suites', project.id); // no strategy can start to run it meanwhile
  return (await isDeployed(db, suite)) ? { manual: ['invalid_format'] } : {};
}

function refuseGates({ owned }: { owned: boolean }, changed: Partial<SuiteRow>, stored: Partial<SuiteRow>): void {
  if (!owned && changesAny(['approval', 'approvers'], changed, stored)) throw new ApiError('unauthorized');
}

/** A new command replaces the steps, and new steps replace the command. */
function replacing({ command, steps }: Sent): Pick<Sent, 'command' | 'steps'> {
  if (command !== undefined && command !== '' && steps === undefined) return { steps: [] };
  return steps !== undefined && steps.length > 0 && command === undefined ? { command: '' } : {};
}

export const suites = projectRecords({
  path: '/projects/:project_id/suites',
  name: 'suite',
  access: 'developer',
  reads: 'viewer',
  scope: 'suites',
  fields: suiteFields,
  answer: suiteRecord,
  rows: ({ db, project }) => byQuery(db.selectFrom('suites').selectAll().where('project_id', '=', project.id)),
  view: (suite, { db }) => viewOf(db, suite),
  async verify(call, sent, suite) {
    const stored = suite && valuesIn(suiteFields, suite);
    return {
      ...checkTimeout(call, sent),
      ...checkCommand({ ...stored, ...sent, ...(stored && replacing(sent)) }),
      ...checkRoot(sent, stored),
      ...(await checkNeeds(call, sent, suite)),
      ...(await checkFiles(call, sent, suite)),
      ...(await checkServices(call)),
      ...(await checkManual(call, sent, suite)),
      ...checkVariants(sent, stored),
      ...checkInVariants(sent, stored),
      ...(await checkApprovers(call.db, call.project, sent.approvers)),
    };
  },
  namesIn: ({ project }) => ({ table: 'suites', column: 'project_id', within: project.id }),
});

export const routes = [
  suites.list('List the suites of a project', {
    async handle(call) {
      const all = await suites.rows(call).all();
      const known = await beside(call.db, call.project.id, all);
      return mapYielding(all, (suite) => view(suite, known));
    },
  }),
  suites.create('Create a suite', {
    creates: 'suites',
    async handle(call) {
      refuseImageBuilds(call);
      const { db, project, ids, input } = call;
      const columns = columnsOf(suiteFields, input);
      const gates_of_file = gatesOfFile(columns, isFile(call));
      const suite = { id: ids.next(), project_id: project.id, ...columns, gates_of_file };
      refuseGates(project, suite, { approval: 0, approvers: '[]' });
      await refuseGuarded(call, suite);
      await orTaken(db.insertInto('suites').values(suite).execute());
      if (suite.reuse === 'on') await allowReuse(db, project.id, suite.name);
      await holdVariants(db, project, suite);
      return viewOf(db, suite);
    },
  }),
  suites.show('Fetch a suite'),
  suites.change('Change a suite; one that a deploy strategy runs stays manual', {
    changes: 'suites',
    async handle(call) {
      refuseImageBuilds(call);
      const { db, suite, project } = call;
      const changed = columnsOf(suiteFields, {
        ...call.input,
        ...replacing(call.input),
        ...replacingFiles(call.input),
      });
      refuseGates(project, changed, suite);
      await refuseGuarded(call, changed, suite);
      const { name = suite.name, tags = suite.tags } = changed;
      // Locks are taken in the order of builds: first waiting builds, then caches, then the suite (db/lock-order.ts).
      if (tags !== suite.tags)
        await retagBuilds(writeContextOf(call), { accountId: project.owner_id, suiteId: suite.id, tags });
      if (name !== suite.name)
        await renameCaches(writeContextOf(call), { projectId: project.id, suiteId: suite.id, name });
      if (Object.keys(changed).length > 0) {
        const set = { ...changed, gates_of_file: gatesOfFile(changed, isFile(call), suite) };
        await orTaken(db.updateTable('suites').set(set).where('id', '=', suite.id).execute());
        if (name !== suite.name) await renameStop(db, { projectId: project.id, from: suite.name, to: name });
        if (changed.reuse === 'on') await allowReuse(db, project.id, name);
      }
      await holdVariants(db, project, changed);
      return viewOf(db, { ...suite, ...changed });
    },
  }),
  suites.remove(
    'Delete a suite that no other suite needs and no deploy strategy runs; its builds stay, and waiting ones are cancelled',
    {
      access: 'maintainer',
      async handle(call) {
        const { db, suite } = call;
        if ((await isNeeded(call, suite)) || (await isDeployed(db, suite)))
          throw new ApiError('resource_temporary_unavailable');
        await forgetSlowSteps(db, suite.id); // before build requests, as when a build ends
        await cancelWaitingBuilds(writeContextOf(call), suite.project_id, [suite.id]);
        await db.deleteFrom('suites').where('id', '=', suite.id).execute();
      },
    },
  ),
];
