import {
  attachedStacks,
  combined,
  dependenciesNow,
  launchesOf,
  ownDependencyNow,
  relatedStacks,
  type Combined,
  type Stack,
} from '../software/software.ts';
import type { Software, SuiteOrder } from '../../shared/protocol/index.ts';
import { addLine, findLog } from '../streams/logs.ts';
import type { JobContext } from './job-handler.ts';

export interface Needed extends Combined {
  software: Software[];
}

export const noSoftware: Needed & Pick<SuiteOrder, 'launches'> = {
  software: [],
  prefixes: [],
  layers: [],
  missing: [],
  launches: [],
};

/** A file's suite names its dependencies. Each name means the project suite's dependency, or else the account's. */
export interface Attached {
  suiteId: bigint | null;
  accountId: bigint;
  names: readonly string[] | undefined;
}

async function stacksFor({ trx }: JobContext, { suiteId, accountId, names }: Attached): Promise<Stack[]> {
  const attached = suiteId === null ? [] : await attachedStacks(trx, suiteId);
  if (!names) return attached;
  const own = trx.selectFrom('dependencies').select('id').where('owner_id', '=', accountId);
  const ids = names.length === 0 ? [] : await own.where('name', 'in', names).execute();
  const known = [
    ...attached,
    ...(await dependenciesNow(
      trx,
      ids.map(({ id }) => id),
    )),
  ];
  return names.flatMap((name) => known.find(({ itself }) => itself.name === name) ?? []);
}

export async function suiteSoftware(
  context: JobContext,
  attached: Attached,
): Promise<Needed & Pick<SuiteOrder, 'launches'>> {
  const stacks = await stacksFor(context, attached);
  return { ...neededBy(stacks), launches: launchesOf(stacks) };
}

/** The current result, with its lower layers. Undefined if the dependency is gone. */
export async function ownSoftware({ trx }: JobContext, accountId: bigint, id: bigint): Promise<Needed | undefined> {
  const found = await ownDependencyNow(trx, accountId, id);
  return found && neededBy([found]);
}

export async function relatedSoftware(context: JobContext, dependencyId: bigint): Promise<Needed> {
  return neededBy(await relatedStacks(context.trx, dependencyId));
}

function neededBy(stacks: Stack[]): Needed {
  const needed = combined(stacks);
  const software = needed.layers.flatMap(({ digest, prefix }) => (digest === null ? [] : [{ digest, prefix }]));
  return { software, ...needed };
}

/** Written once, as the first line of the log. */
export async function logWaiting(
  { db, trx }: JobContext,
  subjectId: bigint,
  awaited: readonly { name: string }[],
): Promise<void> {
  if (((await findLog(trx, subjectId))?.size ?? 0n) > 0n) return;
  const names = awaited.map(({ name }) => name);
  const which = names.length === 1 ? `the dependency ${names[0]}` : `the dependencies ${names.join(', ')}`;
  await addLine(db, trx, subjectId, `Waiting for the compile of ${which}.`);
}
