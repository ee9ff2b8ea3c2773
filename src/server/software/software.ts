import type { Queries } from '../db/open.ts';
import type { DependencyPinRow, DependencyRow } from '../db/schema.ts';

/**
 * The account's own dependencies are followed: their latest result counts. Another account's are pinned (pins.ts):
 * their result stays unchanged from the start of their use.
 */

/** Only the layers of named dependencies are launched, not the layers below them. */
export interface Layer {
  id: bigint;
  name: string;
  /** null if it was never compiled. */
  digest: string | null;
  prefix: string;
  launchCommand: string;
}

/** A named dependency and the dependencies it was compiled against, the lowest first. */
export interface Stack {
  itself: Layer;
  below: Layer[];
}

type Known = Pick<DependencyRow, 'id' | 'name' | 'result' | 'result_prefix' | 'launch_command'>;
const columns = [
  'dependencies.id',
  'dependencies.name',
  'dependencies.result',
  'dependencies.result_prefix',
  'dependencies.launch_command',
] as const;

interface Used {
  dependency: Known;
  pin: Stack | undefined;
}

export async function attachedStacks(db: Queries, suiteId: bigint): Promise<Stack[]> {
  const attached = await db
    .selectFrom('suite_dependencies')
    .innerJoin('dependencies', 'dependencies.id', 'suite_dependencies.dependency_id')
    .select([...columns, 'suite_dependencies.id as use_id'])
    .where('suite_dependencies.suite_id', '=', suiteId)
    .orderBy('suite_dependencies.id')
    .execute();
  return stacksOf(db, await withPins(db, 'suite_dependency_id', attached));
}

export async function relatedStacks(db: Queries, dependencyId: bigint): Promise<Stack[]> {
  return stacksOf(db, (await relationsOf(db, [dependencyId])).get(dependencyId) ?? []);
}

export async function dependenciesNow(db: Queries, ids: bigint[]): Promise<Stack[]> {
  if (ids.length === 0) return [];
  const found = await db.selectFrom('dependencies').select(columns).where('id', 'in', ids).execute();
  return stacksOf(
    db,
    found.map((dependency) => ({ dependency, pin: undefined })),
  );
}

export async function ownDependencyNow(db: Queries, accountId: bigint, id: bigint): Promise<Stack | undefined> {
  const own = db.selectFrom('dependencies').select('id').where('owner_id', '=', accountId);
  const found = await own.where('id', '=', id).executeTakeFirst();
  return found && (await dependenciesNow(db, [found.id]))[0];
}

async function stacksOf(db: Queries, named: Used[]): Promise<Stack[]> {
  const relations = new Map<bigint, Used[]>();
  for (let edge = followed(named, relations); edge.length > 0;) {
    const found = await relationsOf(db, edge);
    for (const id of edge) relations.set(id, found.get(id) ?? []);
    edge = followed([...found.values()].flat(), relations);
  }
  return named.map((one) => stackOf(one, relations));
}

/** A pin already contains its dependencies. */
function followed(used: Used[], known: ReadonlyMap<bigint, unknown>): bigint[] {
  const ids = used.filter(({ pin }) => !pin).map(({ dependency }) => dependency.id);
  return [...new Set(ids)].filter((id) => !known.has(id));
}

function stackOf(named: Used, relations: ReadonlyMap<bigint, Used[]>): Stack {
  if (named.pin) return named.pin;
  const below: Layer[] = [];
  const visited = new Set([named.dependency.id]);
  const visit = ({ dependency, pin }: Used): void => {
    if (pin) below.push(...pin.below, { ...pin.itself, launchCommand: '' });
    else if (!visited.has(dependency.id)) {
      visited.add(dependency.id);
      relations.get(dependency.id)?.forEach(visit);
      below.push({ ...layerOf(dependency), launchCommand: '' });
    }
  };
  relations.get(named.dependency.id)?.forEach(visit);
  return { itself: layerOf(named.dependency), below: eachOnce(below) };
}

function layerOf({ id, name, result: digest, result_prefix: prefix, launch_command }: Known): Layer {
  return { id, name, digest, prefix, launchCommand: launch_command };
}

/** Keeps the lowest position of each layer. A dependency may have several results, each pinned at its own time. */
export function eachOnce(layers: Layer[]): Layer[] {
  const known = new Map<string, Layer>();
  for (const layer of layers) {
    const key = `${layer.id} ${layer.digest} ${layer.prefix}`;
    if (!known.has(key)) known.set(key, layer);
  }
  return [...known.values()];
}

export interface Combined {
  /** Each once, lower ones first. */
  layers: Layer[];
  /** In the order of search paths. */
  prefixes: string[];
  missing: Layer[];
}

/** Lower layers are mounted below the dependency, but come after every named dependency in search paths. */
export function combined(stacks: readonly Stack[]): Combined {
  const layers = eachOnce(stacks.flatMap(({ below, itself }) => [...below, itself]));
  const prefixes = [...stacks.map(({ itself }) => itself), ...layers].map(({ prefix }) => prefix);
  return { layers, prefixes: [...new Set(prefixes)], missing: layers.filter(({ digest }) => digest === null) };
}

export function launchesOf(stacks: readonly Stack[]): { name: string; command: string }[] {
  return stacks
    .map(({ itself: { name, launchCommand: command } }) => ({ name, command }))
    .filter(({ command }) => command.trim() !== '');
}

async function relationsOf(db: Queries, ids: bigint[]): Promise<Map<bigint, Used[]>> {
  const relations = await db
    .selectFrom('dependency_relations')
    .innerJoin('dependencies', 'dependencies.id', 'dependency_relations.related_id')
    .select([...columns, 'dependency_relations.id as use_id', 'dependency_relations.dependency_id'])
    .where('dependency_relations.dependency_id', 'in', ids)
    .orderBy('dependency_relations.id')
    .execute();
  const used = await withPins(db, 'relation_id', relations);
  return Map.groupBy(used, (_, at) => relations[at]?.dependency_id ?? -1n);
}

type UseColumn = 'suite_dependency_id' | 'relation_id';

async function withPins(
  db: Queries,
  column: UseColumn,
  uses: readonly (Known & { use_id: bigint })[],
): Promise<Used[]> {
  const ids = uses.map(({ use_id: id }) => id);
  const pins = await pinsOf(db, column, ids);
  return uses.map((dependency) => ({ dependency, pin: pins.get(dependency.use_id) }));
}

export async function pinsOf(db: Queries, column: UseColumn, ids: bigint[]): Promise<Map<bigint, Stack>> {
  if (ids.length === 0) return new Map();
  const rows = await db
    .selectFrom('dependency_pins')
    .selectAll()
    .where(column, 'in', ids)
    .orderBy(column)
    .orderBy('position')
    .execute();
  const stacks = Array.from(
    Map.groupBy(rows, (row) => row[column] ?? -1n),
    ([id, pinned]) => {
      const layers = pinned.map(layerOfPin);
      const itself = layers.pop();
      return itself ? [[id, { itself, below: layers }] as const] : [];
    },
  );
  return new Map(stacks.flat());
}

function layerOfPin({ dependency_id: id, name, digest, prefix, launch_command }: DependencyPinRow): Layer {
  return { id, name, digest, prefix, launchCommand: launch_command };
}
