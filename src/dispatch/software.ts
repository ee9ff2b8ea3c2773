import { prepared } from '../db/prepared.ts';
import type { DependencyRow } from '../db/schema.ts';
import type { Software, SuiteOrder } from '../protocol.ts';
import type { Bench } from './kind.ts';

type Known = Pick<DependencyRow, 'id' | 'name' | 'result' | 'result_prefix' | 'launch_command'>;
const columns = [
  'dependencies.id',
  'dependencies.name',
  'dependencies.result',
  'dependencies.result_prefix',
  'dependencies.launch_command',
] as const;

/** The compiled software that some work needs, and the names of what is not compiled yet. */
export interface Needed {
  software: Software[];
  prefixes: string[];
  missing: string[];
}

const findAttached = prepared<{ suite: bigint }, Known>((db, value) =>
  db
    .selectFrom('suite_dependencies')
    .innerJoin('dependencies', 'dependencies.id', 'suite_dependencies.dependency_id')
    .select(columns)
    .where('suite_dependencies.suite_id', '=', value('suite'))
    .orderBy('suite_dependencies.id'),
);

/** What a suite has attached, in that order, and what that was compiled against. */
export async function suiteSoftware(bench: Bench, suiteId: bigint): Promise<Needed & Pick<SuiteOrder, 'launches'>> {
  const attached = await findAttached(bench.trx, { suite: suiteId });
  const launches = attached
    .filter(({ launch_command: command }) => command.trim() !== '')
    .map(({ name, launch_command: command }) => ({ name, command }));
  return { ...(await withRelated(bench, attached)), launches };
}

/** What a dependency is compiled against, and what that was compiled against in its turn. */
export async function relatedSoftware(bench: Bench, dependencyId: bigint): Promise<Needed> {
  return withRelated(bench, await relationsOf(bench, [dependencyId]));
}

async function relationsOf({ trx }: Bench, ids: bigint[]): Promise<(Known & { dependency_id: bigint })[]> {
  return trx
    .selectFrom('dependency_relations')
    .innerJoin('dependencies', 'dependencies.id', 'dependency_relations.related_id')
    .select([...columns, 'dependency_relations.dependency_id'])
    .where('dependency_relations.dependency_id', 'in', ids)
    .orderBy('dependency_relations.id')
    .execute();
}

/** What something was compiled against lies below it, but is looked through after everything that was named itself. */
async function withRelated(bench: Bench, named: readonly Known[]): Promise<Needed> {
  const relations: (Known & { dependency_id: bigint })[] = [];
  const known = new Set(named.map(({ id }) => id));
  for (let edge = [...known]; edge.length > 0;) {
    const found = await relationsOf(bench, edge);
    relations.push(...found);
    edge = [...new Set(found.map(({ id }) => id))].filter((id) => !known.has(id));
    for (const id of edge) known.add(id);
  }
  const ordered: Known[] = [];
  const visited = new Set<bigint>();
  const visit = (one: Known): void => {
    if (visited.has(one.id)) return;
    visited.add(one.id);
    relations.filter(({ dependency_id: of }) => of === one.id).forEach(visit);
    ordered.push(one);
  };
  named.forEach(visit);
  const prefixes = [...named, ...ordered].map(({ result_prefix: prefix }) => prefix);
  return {
    software: ordered.flatMap(({ result, result_prefix: prefix }) =>
      result === null ? [] : [{ digest: result, prefix }],
    ),
    prefixes: [...new Set(prefixes)],
    missing: ordered.filter(({ result }) => result === null).map(({ name }) => name),
  };
}
