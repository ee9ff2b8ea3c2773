import { projectRoute } from '../api/route.ts';
import type { Queries } from '../db/open.ts';
import type { DependencyRow, SuiteRow } from '../db/schema.ts';
import { ApiError, type FieldErrors } from '../../shared/errors.ts';
import { identifier, required } from '../../shared/records/fields.ts';
import { wakeWaiting } from '../software/dependencies.ts';
import { holdForeign, isSameStack, pinTo, stackNow } from '../software/pins.ts';
import { dependenciesNow, pinsOf, type Stack } from '../software/software.ts';
import { suiteDependencyRecord } from '../../shared/records/suite.ts';
import { listOf } from '../../shared/records/schema.ts';
import { destroyed, destroyedAnswer, writeContextOf, orNotFound, type InProject } from './common.ts';
import { usableBy } from './dependency-relations.ts';
import { refuseSoftware } from './guarded-suites.ts';
import { orTaken } from './names.ts';
import { inSuite, loadSuite } from './suites.ts';

type Shown = Pick<DependencyRow, 'id' | 'name' | 'prefix' | 'launch_command' | 'shared'>;

/** Shows the pinned result, and whether the owner shares a newer one. */
function view({ id, name, prefix, launch_command, shared }: Shown, pin?: Stack, now: Stack | undefined = pin) {
  const own = { id, id_ref: String(id), name, prefix, launch_command, update_available: false };
  if (!pin || !now) return own;
  return {
    ...own,
    prefix: pin.itself.digest === null ? prefix : pin.itself.prefix,
    launch_command: pin.itself.launchCommand,
    update_available: shared === 1 && !isSameStack(pin, now),
  };
}

function attachedTo(db: Queries, suiteId: bigint) {
  return db
    .selectFrom('suite_dependencies')
    .innerJoin('dependencies', 'dependencies.id', 'suite_dependencies.dependency_id')
    .selectAll('dependencies')
    .select('suite_dependencies.id as use_id')
    .where('suite_dependencies.suite_id', '=', suiteId)
    .orderBy('suite_dependencies.id');
}

type Attached = DependencyRow & { use_id: bigint };

async function loadAttached(
  call: InProject<'suite_id' | 'dependency_id'>,
): Promise<{ suite: SuiteRow; dependency: Attached }> {
  const { suite } = await loadSuite(call);
  const named = attachedTo(call.db, suite.id).where('dependencies.id', '=', call.params.dependency_id);
  return { suite, dependency: orNotFound(await named.executeTakeFirst()) };
}

/** With its pinned result, and whether a new pin would differ. The own account's dependencies are not pinned. */
async function loadPinned(call: InProject<'suite_id' | 'dependency_id'>) {
  const { suite, dependency } = await loadAttached(call);
  const pin = (await pinsOf(call.db, 'suite_dependency_id', [dependency.use_id])).get(dependency.use_id);
  const isBehind = pin !== undefined && !isSameStack(pin, await stackNow(call.db, dependency.id));
  return { suite, dependency, pin, isBehind };
}

const path = '/projects/:project_id/suites/:suite_id/dependencies';

export const routes = [
  projectRoute({
    method: 'GET',
    path,
    access: 'both',
    scope: 'suites',
    summary: 'List the dependencies of a suite, in the order in which they were attached',
    answer: listOf(suiteDependencyRecord),
    load: loadSuite,
    async handle({ db, suite }) {
      const attached = await attachedTo(db, suite.id).execute();
      const useIds = attached.map(({ use_id: useId }) => useId);
      const pins = await pinsOf(db, 'suite_dependency_id', useIds);
      const pinned = attached.filter(({ use_id: useId }) => pins.has(useId)).map(({ id }) => id);
      const now = new Map((await dependenciesNow(db, pinned)).map((stack) => [stack.itself.id, stack]));
      return attached.map((one) => view(one, pins.get(one.use_id), now.get(one.id)));
    },
  }),
  projectRoute({
    method: 'POST',
    path,
    access: 'both',
    scope: 'suites',
    summary: 'Attach a dependency of the project’s owner, or a shared one, which is pinned to its present result',
    body: { dependency_id: required(identifier()) },
    creates: 'suite_dependencies',
    answer: suiteDependencyRecord,
    load: loadSuite,
    async verify({ db, project }, { dependency_id: id }): Promise<FieldErrors> {
      if (id === undefined || (await usableBy(db, project.owner_id, [id])).has(id)) return {};
      return { dependency_id: ['not_found'] };
    },
    audit: { action: 'dependency.attached', details: inSuite },
    async handle(call) {
      await refuseSoftware(call);
      const { db, project, suite, ids, input } = call;
      const isForeign = await holdForeign(writeContextOf(call), project.owner_id, [input.dependency_id]);
      const query = db.selectFrom('dependencies').selectAll().where('id', '=', input.dependency_id);
      const dependency = orNotFound(await query.executeTakeFirst(), 'dependency_id');
      const row = { id: ids.next(), suite_id: suite.id, dependency_id: dependency.id };
      await orTaken(db.insertInto('suite_dependencies').values(row).execute(), 'dependency_id');
      if (!isForeign) return view(dependency);
      const pin = await stackNow(db, dependency.id);
      await pinTo(db, { suite_dependency_id: row.id }, pin);
      return view(dependency, pin);
    },
  }),
  projectRoute({
    method: 'POST',
    path: `${path}/:dependency_id/update`,
    access: 'both',
    scope: 'suites',
    summary:
      'Pin a dependency of another account to its present result; dependencies of the project’s owner always have their latest',
    answer: suiteDependencyRecord,
    load: loadPinned,
    audit: {
      action: 'dependency.pin_updated',
      subject: ({ dependency, isBehind }) => (isBehind ? dependency : undefined),
      details: inSuite,
    },
    async handle(call) {
      await refuseSoftware(call);
      const { db, project, dependency, pin, isBehind } = call;
      if (!isBehind) return view(dependency, pin);
      if (dependency.shared !== 1) throw new ApiError('not_found'); // it is no longer shared
      await holdForeign(writeContextOf(call), project.owner_id, [dependency.id]);
      const now = await stackNow(db, dependency.id);
      await pinTo(db, { suite_dependency_id: dependency.use_id }, now);
      return view(dependency, now);
    },
  }),
  projectRoute({
    method: 'DELETE',
    path: `${path}/:dependency_id`,
    access: 'both',
    scope: 'suites',
    summary: 'Detach a dependency from a suite',
    answer: destroyedAnswer,
    load: loadAttached,
    audit: { action: 'dependency.detached', subject: ({ dependency }) => dependency, details: inSuite },
    async handle(call) {
      await refuseSoftware(call);
      const { db, project, dependency } = call;
      const { numDeletedRows } = await db
        .deleteFrom('suite_dependencies')
        .where('id', '=', dependency.use_id)
        .executeTakeFirst();
      orNotFound(numDeletedRows === 1n ? numDeletedRows : undefined);
      await wakeWaiting(writeContextOf(call), project.owner_id);
      return destroyed;
    },
  }),
];
