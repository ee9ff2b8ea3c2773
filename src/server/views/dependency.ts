import type { Queries } from '../db/open.ts';
import type { DependencyRow } from '../db/schema.ts';
import { dependencyFields, type Dependency } from '../../shared/records/dependency.ts';
import { valuesIn } from '../../shared/records/fields.ts';
import { withIdString } from './id-string.ts';

export interface Related {
  dependency_id: bigint;
  related_id: bigint;
  name: string;
}

/** In the order in which the user named them. */
export async function relatedTo(db: Queries, ids: bigint[]): Promise<Related[]> {
  if (ids.length === 0) return [];
  return db
    .selectFrom('dependency_relations')
    .innerJoin('dependencies', 'dependencies.id', 'dependency_relations.related_id')
    .select(['dependency_relations.dependency_id', 'dependency_relations.related_id', 'dependencies.name'])
    .where('dependency_relations.dependency_id', 'in', ids)
    .orderBy('dependency_relations.id')
    .execute();
}

export function dependencyView(dependency: DependencyRow, related: readonly Related[]): Dependency {
  return {
    ...withIdString('id', dependency.id),
    ...valuesIn(dependencyFields, dependency),
    archive_content_type: dependency.archive_content_type,
    archive_file_size: dependency.archive_file_size,
    related_dependencies: related.map(({ related_id, name }) => ({ ...withIdString('id', related_id), name })),
    marketplace_state: dependency.state,
  };
}
