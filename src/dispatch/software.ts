import { attachedStacks, eachOnce, relatedStacks, type Layer, type Stack } from '../lifecycle/software.ts';
import type { Software, SuiteOrder } from '../protocol/index.ts';
import { addLine, findLog } from '../streams/logs.ts';
import type { JobContext } from './job-handler.ts';

/** The compiled software that a job needs. */
export interface Needed {
  software: Software[];
  prefixes: string[];
  /** All layers of it. */
  layers: Layer[];
  /** The layers that were never compiled. */
  missing: Layer[];
}

/** Most suites need no software. */
export const noSoftware: Needed & Pick<SuiteOrder, 'launches'> = {
  software: [],
  prefixes: [],
  layers: [],
  missing: [],
  launches: [],
};

/** The dependencies attached to a suite, in their order, with the ones they were compiled against. */
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

/** The dependencies that a dependency is compiled against, with theirs in turn. */
export async function relatedSoftware(context: JobContext, dependencyId: bigint): Promise<Needed> {
  return neededBy(await relatedStacks(context.trx, dependencyId));
}

/**
 * The layers that a dependency was compiled against lie below it. But search paths list them after every named
 * dependency.
 */
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

/** Writes once, as the first line of the log, that the job waits for these compiles. */
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
