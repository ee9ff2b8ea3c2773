import { projectRoute } from '../api/route.ts';
import type { Queries } from '../db/open.ts';
import type { DependencyRow } from '../db/schema.ts';
import { ApiError } from '../../shared/errors.ts';
import { identifier, required } from '../../shared/records/fields.ts';
import { wakeWaiting } from '../software/dependencies.ts';
import { holdForeign, isSameStack, pinTo, stackNow } from '../software/pins.ts';
import { dependenciesNow, pinsOf, type Stack } from '../software/software.ts';
import { suiteDependencyRecord } from '../../shared/records/suite.ts';
import { writeContextOf, orNotFound } from './common.ts';
import { usableBy } from './dependency-relations.ts';
import { refuseSoftware } from './guarded-suites.ts';
import { orTaken } from './names.ts';
import { byQuery, projectRecords } from './record-routes.ts';
import { inSuite, suites } from './suites.ts';

type Shown = Pick<DependencyRow, 'id' | 'name' | 'prefix' | 'launch_command' | 'shared'>;

/** Shows the pinned result, and whether the owner shares a newer result. */
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
    .where('suite_dependencies.suite_id', '=', suiteId);
}

const attached = projectRecords({
  path: '/projects/:project_id/suites/:suite_id/dependencies',
  name: 'dependency',
  access: 'developer',
  reads: 'viewer',
  scope: 'suites',
  fields: { dependency_id: required(identifier()) },
  answer: suiteDependencyRecord,
  inside: suites.load,
  rows: ({ db, suite }) => byQuery(attachedTo(db, suite.id), 'dependencies.id'),
  view: (dependency) => view(dependency),
  async verify({ db, project }, { dependency_id: id }) {
    if (id === undefined || (await usableBy(db, project.owner_id, [id])).has(id)) return {};
    return { dependency_id: ['not_found'] };
  },
  details: inSuite,
});

/** Adds the pinned result, and whether a new pin would differ. The account's own dependencies have no pin. */
async function loadPinned(call: Parameters<typeof attached.load>[0]) {
  const { suite, dependency } = await attached.load(call);
  const pin = (await pinsOf(call.db, 'suite_dependency_id', [dependency.use_id])).get(dependency.use_id);
  const isBehind = pin !== undefined && !isSameStack(pin, await stackNow(call.db, dependency.id));
  return { suite, dependency, pin, isBehind };
}

export const routes = [
  attached.list('List the dependencies of a suite, in the order in which they were attached', {
    async handle({ db, suite }) {
      const all = await attachedTo(db, suite.id).orderBy('suite_dependencies.id').execute();
      const useIds = all.map(({ use_id: useId }) => useId);
      const pins = await pinsOf(db, 'suite_dependency_id', useIds);
      const pinned = all.filter(({ use_id: useId }) => pins.has(useId)).map(({ id }) => id);
      const now = new Map((await dependenciesNow(db, pinned)).map((stack) => [stack.itself.id, stack]));
      return all.map((one) => view(one, pins.get(one.use_id), now.get(one.id)));
    },
  }),
  attached.create(
    'Attach a dependency of the project’s owner, or a shared one, which is pinned to its present result',
    {
      creates: 'suite_dependencies',
      action: 'dependency.attached',
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
    },
  ),
  projectRoute({
    method: 'POST',
    path: `${attached.one}/update`,
    access: 'developer',
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
      if (dependency.shared !== 1) throw new ApiError('not_found'); // the owner no longer shares it
      await holdForeign(writeContextOf(call), project.owner_id, [dependency.id]);
      const now = await stackNow(db, dependency.id);
      await pinTo(db, { suite_dependency_id: dependency.use_id }, now);
      return view(dependency, now);
    },
  }),
  attached.remove('Detach a dependency from a suite', {
    action: 'dependency.detached',
    async handle(call) {
      await refuseSoftware(call);
      const { db, project, dependency } = call;
      const { numDeletedRows } = await db
        .deleteFrom('suite_dependencies')
        .where('id', '=', dependency.use_id)
        .executeTakeFirst();
      orNotFound(numDeletedRows === 1n ? numDeletedRows : undefined);
      await wakeWaiting(writeContextOf(call), project.owner_id);
    },
  }),
];
