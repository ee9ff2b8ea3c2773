import { ApiError } from '../../shared/errors.ts';
import { readDocument } from '../../shared/documents/document.ts';
import type { ConfigChange } from '../../shared/records/project.ts';
import type { Call, WithProject } from '../api/call.ts';
import type { Transaction } from '../db/open.ts';
import type { ProjectRow } from '../db/schema.ts';
import { holdWaitingBuilds } from '../lifecycle/builds.ts';
import { cancelWaitingBuilds } from '../lifecycle/deleted-suites.ts';
import type { WriteContext } from '../lifecycle/write-context.ts';
import { writeContextOf } from './common.ts';
import { planFor, planningWith, runCalls } from './config-plan.ts';
import { readProject } from './config-present.ts';
import { keepStops } from './config-reuse.ts';
import type { PlannedCall } from './planned-call.ts';

type Configuring = Pick<Call, 'database' | 'ids' | 'observers' | 'within'> & WithProject & { db: Transaction };

/** Makes the project what the document describes, in the transaction of the call. */
export async function configure(
  call: Configuring,
  { document, isTrial, mayDelete }: { document: string; isTrial: boolean; mayDelete: boolean },
): Promise<ConfigChange> {
  const { db, database, within, project } = call;
  const { id } = project;
  const wanted = readDocument(document);
  const planning = planningWith({ db, within, isTrial });
  await keepStops(db, id, wanted);
  const calls = planFor(planning, await readProject(planning, id), wanted);
  if (!mayDelete && calls.some(({ action }) => action === 'delete')) throw new ApiError('is_blank', 'prune');
  await holdForCalls(writeContextOf(call), project, calls);
  await cancelWaitingBuilds(writeContextOf(call), id, recordsIn(calls, 'suites', isDeletion));
  await runCalls(db, database, id, calls);
  return { applied: !isTrial, changes: changesOf(calls, isTrial) };
}

/** Takes the locks of all calls first, in the order of db/lock-order.ts, because the calls run in another order. */
async function holdForCalls(
  context: WriteContext,
  project: Pick<ProjectRow, 'owner_id'>,
  calls: readonly PlannedCall[],
): Promise<void> {
  const { db, trx } = context;
  const hooks = recordsIn(calls, 'hooks');
  if (hooks.length > 0)
    await db.locked(trx.selectFrom('hooks').select('id').where('id', 'in', hooks).orderBy('id'), 'hooks').execute();
  const suites = recordsIn(calls, 'suites', (one) => isDeletion(one) || one.fields.some(({ name }) => name === 'tags'));
  await holdWaitingBuilds(context, { accountId: project.owner_id, suites });
}

const isDeletion = ({ action }: PlannedCall): boolean => action === 'delete';

function recordsIn(
  calls: readonly PlannedCall[],
  section: string,
  which: (one: PlannedCall) => boolean = () => true,
): bigint[] {
  return calls.flatMap((one) => (one.section === section && which(one) ? (one.record ?? []) : []));
}

export function changesOf(calls: readonly PlannedCall[], isTrial = false): ConfigChange['changes'] {
  return calls.map(({ action, what, fields, once }) => ({ action, what, fields, ...(!isTrial && once) }));
}
