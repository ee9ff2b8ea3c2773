import { attachedStacks, eachOnce, relatedStacks, type Stack } from '../lifecycle/software.ts';
import type { Software, SuiteOrder } from '../protocol.ts';
import type { Bench } from './kind.ts';

/** The compiled software that some work needs, and the names of what is not compiled yet. */
export interface Needed {
  software: Software[];
  prefixes: string[];
  missing: string[];
}

/** What a suite has attached, in that order, and what that was compiled against. */
export async function suiteSoftware(bench: Bench, suiteId: bigint): Promise<Needed & Pick<SuiteOrder, 'launches'>> {
  const stacks = await attachedStacks(bench.trx, suiteId);
  const launches = stacks
    .map(({ itself: { name, launchCommand: command } }) => ({ name, command }))
    .filter(({ command }) => command.trim() !== '');
  return { ...neededBy(stacks), launches };
}

/** What a dependency is compiled against, and what that was compiled against in its turn. */
export async function relatedSoftware(bench: Bench, dependencyId: bigint): Promise<Needed> {
  return neededBy(await relatedStacks(bench.trx, dependencyId));
}

/** What something was compiled against lies below it, but is looked through after everything that was named itself. */
function neededBy(stacks: Stack[]): Needed {
  const layers = eachOnce(stacks.flatMap(({ below, itself }) => [...below, itself]));
  const prefixes = [...stacks.map(({ itself }) => itself), ...layers].map(({ prefix }) => prefix);
  return {
    software: layers.flatMap(({ digest, prefix }) => (digest === null ? [] : [{ digest, prefix }])),
    prefixes: [...new Set(prefixes)],
    missing: layers.filter(({ digest }) => digest === null).map(({ name }) => name),
  };
}
