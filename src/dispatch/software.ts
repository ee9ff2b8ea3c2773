import { attachedStacks, eachOnce, relatedStacks, type Layer, type Stack } from '../lifecycle/software.ts';
import type { Software, SuiteOrder } from '../protocol.ts';
import { addLine, findLog } from '../streams/logs.ts';
import type { JobContext } from './job-handler.ts';

/** The compiled software that some work needs. */
export interface Needed {
  software: Software[];
  prefixes: string[];
  /** Everything that this comes to. */
  layers: Layer[];
  /** What of it was never compiled. */
  missing: Layer[];
}

/** What most suites need. */
export const noSoftware: Needed & Pick<SuiteOrder, 'launches'> = {
  software: [],
  prefixes: [],
  layers: [],
  missing: [],
  launches: [],
};

/** What a suite has attached, in that order, and what that was compiled against. */
export async function suiteSoftware(
  context: JobContext,
  suiteId: bigint,
): Promise<Needed & Pick<SuiteOrder, 'launches'>> {
  const stacks = await attachedStacks(context.trx, suiteId);
  const launches = stacks
    .map(({ itself: { name, launchCommand: command } }) => ({ name, command }))
    .filter(({ command }) => command.trim() !== '');
  return { ...neededBy(stacks), launches };
}

/** What a dependency is compiled against, and what that was compiled against in its turn. */
export async function relatedSoftware(context: JobContext, dependencyId: bigint): Promise<Needed> {
  return neededBy(await relatedStacks(context.trx, dependencyId));
}

/** What something was compiled against lies below it, but is looked through after everything that was named itself. */
function neededBy(stacks: Stack[]): Needed {
  const layers = eachOnce(stacks.flatMap(({ below, itself }) => [...below, itself]));
  const prefixes = [...stacks.map(({ itself }) => itself), ...layers].map(({ prefix }) => prefix);
  return {
    software: layers.flatMap(({ digest, prefix }) => (digest === null ? [] : [{ digest, prefix }])),
    prefixes: [...new Set(prefixes)],
    layers,
    missing: layers.filter(({ digest }) => digest === null),
  };
}

/** That something waits for them is the first that there is to say of it, and said once. */
export async function sayWaiting(
  { db, trx }: JobContext,
  subjectId: bigint,
  awaited: readonly { name: string }[],
): Promise<void> {
  if (((await findLog(trx, subjectId))?.size ?? 0n) > 0n) return;
  const names = awaited.map(({ name }) => name);
  const which = names.length === 1 ? `the dependency ${names[0]}` : `the dependencies ${names.join(', ')}`;
  await addLine(db, trx, subjectId, `This waits for the compile of ${which}.`);
}
