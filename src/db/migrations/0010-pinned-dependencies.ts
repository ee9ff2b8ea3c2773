import type { Transaction } from '../open.ts';

/** Pins: the state of other accounts' dependencies at the moment a suite or dependency began to use them. */
export async function pinnedDependencies(trx: Transaction): Promise<void> {
  // A pin is deleted with its use. Its dependency may be gone: the blob stays as long as the pin does.
  await trx.schema
    .createTable('dependency_pins')
    .addColumn('suite_dependency_id', 'bigint', (column) =>
      column.references('suite_dependencies.id').onDelete('cascade'),
    )
    .addColumn('relation_id', 'bigint', (column) => column.references('dependency_relations.id').onDelete('cascade'))
    .addColumn('position', 'integer', (column) => column.notNull())
    .addColumn('dependency_id', 'bigint', (column) => column.notNull())
    .addColumn('name', 'text', (column) => column.notNull())
    .addColumn('digest', 'text')
    .addColumn('prefix', 'text', (column) => column.notNull())
    .addColumn('launch_command', 'text', (column) => column.notNull())
    .execute();
  for (const holder of ['suite_dependency_id', 'relation_id'] as const) {
    await trx.schema
      .createIndex(`dependency_pins_of_${holder}`)
      .unique()
      .on('dependency_pins')
      .columns([holder, 'position'])
      .execute();
  }
  await trx.schema.createIndex('dependency_pins_by_digest').on('dependency_pins').column('digest').execute();
  await pinWhatIsUsed(trx);
}

/** Existing uses of other accounts' dependencies are pinned to their current state. */
async function pinWhatIsUsed(trx: Transaction): Promise<void> {
  const attached = await trx
    .selectFrom('suite_dependencies')
    .innerJoin('suites', 'suites.id', 'suite_dependencies.suite_id')
    .innerJoin('projects', 'projects.id', 'suites.project_id')
    .innerJoin('dependencies', 'dependencies.id', 'suite_dependencies.dependency_id')
    .select(['suite_dependencies.id', 'suite_dependencies.dependency_id'])
    .whereRef('projects.owner_id', '<>', 'dependencies.owner_id')
    .execute();
  const related = await trx
    .selectFrom('dependency_relations')
    .innerJoin('dependencies as user', 'user.id', 'dependency_relations.dependency_id')
    .innerJoin('dependencies as used', 'used.id', 'dependency_relations.related_id')
    .select(['dependency_relations.id', 'dependency_relations.related_id as dependency_id'])
    .whereRef('user.owner_id', '<>', 'used.owner_id')
    .execute();
  if (attached.length + related.length === 0) return;
  const layersOf = await layers(trx);
  for (const { id, dependency_id: dependencyId } of attached) {
    for (const layer of layersOf(dependencyId)) {
      const row = { suite_dependency_id: id, relation_id: null, ...layer };
      await trx.insertInto('dependency_pins').values(row).execute();
    }
  }
  for (const { id, dependency_id: dependencyId } of related) {
    for (const layer of layersOf(dependencyId)) {
      const row = { suite_dependency_id: null, relation_id: id, ...layer };
      await trx.insertInto('dependency_pins').values(row).execute();
    }
  }
}

/** All layers of a dependency, the lowest first and the dependency itself last. */
async function layers(trx: Transaction) {
  const dependencies = await trx
    .selectFrom('dependencies')
    .select(['id', 'name', 'result', 'result_prefix', 'launch_command'])
    .execute();
  const relations = await trx
    .selectFrom('dependency_relations')
    .select(['dependency_id', 'related_id'])
    .orderBy('id')
    .execute();
  const byId = new Map(dependencies.map((dependency) => [dependency.id, dependency]));
  const below = Map.groupBy(relations, (relation) => relation.dependency_id);
  return (root: bigint) => {
    const seen = new Set<bigint>();
    const ordered: bigint[] = [];
    const visit = (id: bigint): void => {
      if (seen.has(id)) return;
      seen.add(id);
      for (const { related_id: next } of below.get(id) ?? []) visit(next);
      ordered.push(id);
    };
    visit(root);
    return ordered.flatMap((id, position) => {
      const found = byId.get(id);
      if (!found) return [];
      const { name, result: digest, result_prefix: prefix, launch_command: launch } = found;
      // Only the dependency itself is launched, not its lower layers.
      return [{ position, dependency_id: id, name, digest, prefix, launch_command: id === root ? launch : '' }];
    });
  };
}
