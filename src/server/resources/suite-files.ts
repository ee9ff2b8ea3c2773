import type { Queries } from '../db/open.ts';
import type { ProjectRow, SuiteRow } from '../db/schema.ts';
import type { FieldErrors } from '../../shared/errors.ts';
import { valuesIn, type ValuesOf } from '../../shared/records/fields.ts';
import { suiteFields } from '../../shared/records/suite.ts';
import { most } from '../../shared/domain/bounds.ts';
import { variantsOf } from '../../shared/domain/matrix.ts';

type Sent = Partial<ValuesOf<typeof suiteFields>>;
type Reading = { db: Queries; project: Pick<ProjectRow, 'id'> };

const columns = ['id', 'needs', 'files_from_id', 'matrix', 'matrix_include', 'matrix_exclude'] as const;
const { needs, files_from_id, ...others } = suiteFields;
const own = {
  needs,
  files_from_id,
  matrix: others.matrix,
  matrix_include: others.matrix_include,
  matrix_exclude: others.matrix_exclude,
};
type Facts = ValuesOf<typeof own>;

const variantsIn = (facts: Facts): string => variantsOf(facts).join('\n');

/**
 * A suite may start with the files of a suite that it needs. Each variant has its own files, so both suites must have
 * the same variants. The check includes the suites that start with this suite's files.
 */
export async function checkFiles({ db, project }: Reading, sent: Sent, suite?: SuiteRow): Promise<FieldErrors> {
  const names = Object.keys(own) as (keyof Facts)[];
  if (!names.some((name) => name in sent)) return {};
  const rows = await db.selectFrom('suites').select(columns).where('project_id', '=', project.id).execute();
  const all = new Map(rows.map((row) => [row.id, valuesIn(own, row)]));
  const fallbacks = Object.fromEntries(names.map((name) => [name, own[name].fallback])) as unknown as Facts;
  const wanted: Facts = { ...fallbacks, ...(suite && all.get(suite.id)), ...sent };
  const variants = variantsIn(wanted);
  const takers = [...all.values()].filter(({ files_from_id: from }) => suite !== undefined && from === suite.id);
  if (variants !== '' && takers.some((taker) => variantsIn(taker) !== variants)) return { matrix: ['invalid_format'] };
  const { files_from_id: from } = wanted;
  if (from === null) return {};
  const other = all.get(from);
  if (!other) return { files_from_id: ['not_found'] };
  let depth = 1;
  for (let next = other.files_from_id; next !== null && depth <= most.layeredSuites; depth += 1)
    next = all.get(next)?.files_from_id ?? null;
  const isSame = variantsIn(other) === '' || variantsIn(other) === variants;
  const isPossible = wanted.needs.includes(from) && isSame && depth <= most.layeredSuites;
  return isPossible ? {} : { files_from_id: ['invalid_format'] };
}
