import type { Queries } from '../db/open.ts';
import type { ProjectRow, SuiteRow } from '../db/schema.ts';
import type { FieldErrors } from '../../shared/errors.ts';
import { valuesIn, type ValuesOf } from '../../shared/records/fields.ts';
import { matrixFields, suiteFields } from '../../shared/records/suite.ts';
import { takenByAny, wrongFiles, type TakingSuite } from '../../shared/domain/files-from.ts';

type Sent = Partial<ValuesOf<typeof suiteFields>>;
type Reading = { db: Queries; project: Pick<ProjectRow, 'id'> };

const { name, needs, files_from_id, files_from_name, files_from } = suiteFields;
const { matrix, matrix_include, matrix_exclude } = matrixFields;
const own = { name, needs, files_from_id, files_from_name, files_from, matrix, matrix_include, matrix_exclude };
type Facts = ValuesOf<typeof own>;
const names = Object.keys(own) as (keyof Facts)[];
const columns = ['id', ...names] as const;

const fromFields = ['files_from_id', 'files_from_name', 'files_from'] as const;
type FromField = (typeof fromFields)[number];

const isSet = (facts: Partial<Facts>, field: FromField): boolean =>
  field === 'files_from' ? (facts[field]?.length ?? 0) > 0 : (facts[field] ?? '') !== '';

/** A suite takes files in one of these ways, so a new one replaces another. */
export function replacingFiles(sent: Sent): Pick<Sent, FromField> {
  const [given] = fromFields.filter((field) => isSet(sent, field));
  const others = given ? fromFields.filter((field) => sent[field] === undefined) : [];
  return Object.fromEntries(others.map((field) => [field, own[field].fallback]));
}

/**
 * A suite may take files of suites that it needs. The check includes the suites that take this suite's files, because
 * their variants and the names of directories depend on it.
 */
export async function checkFiles({ db, project }: Reading, sent: Sent, suite?: SuiteRow): Promise<FieldErrors> {
  if (!names.some((field) => field in sent)) return {};
  const rows = await db.selectFrom('suites').select(columns).where('project_id', '=', project.id).execute();
  const before = new Map(rows.map((row) => [row.id, valuesIn(own, row)]));
  const fallbacks = Object.fromEntries(names.map((field) => [field, own[field].fallback])) as unknown as Facts;
  const stored = suite && before.get(suite.id);
  const wanted: Facts = { ...fallbacks, ...stored, ...sent, ...replacingFiles(sent) };
  const [field, second] = fromFields.filter((one) => isSet(wanted, one));
  if (second) return { files_from: ['invalid_format'] };
  const after = new Map([...before, [suite?.id ?? 0n, wanted]]);
  const known = suitesByName(after);
  const wrong = field && wrongFiles(takingOf(wanted, after), known);
  if (wrong) return { [field]: [wrong.code] };
  if (!stored) return {};
  const earlier = suitesByName(before);
  const isTaker = (one: Facts): boolean => takenByAny(takingOf(one, before)).has(stored.name);
  const takers = Array.from(before).filter(([id, one]) => id !== suite.id && isTaker(one));
  const isBroken = takers.some(
    ([, one]) => wrongFiles(takingOf(one, after), known) && !wrongFiles(takingOf(one, before), earlier),
  );
  return isBroken ? { [sent.name === undefined ? 'matrix' : 'name']: ['invalid_format'] } : {};
}

type All = ReadonlyMap<bigint, Facts>;

function suitesByName(all: All): ReadonlyMap<string, TakingSuite> {
  return new Map(Array.from(all.values(), (facts) => [facts.name, takingOf(facts, all)]));
}

/** Unknown IDs stay as they are. No suite has the needs that would make them right. */
function takingOf(
  { needs: needed, files_from_id: from, files_from_name: pattern, files_from: list, ...facts }: Facts,
  all: All,
): TakingSuite {
  const nameOf = (id: bigint): string => all.get(id)?.name ?? `${id} `;
  const single = pattern === '' && from !== null ? nameOf(from) : pattern;
  const several = list.map((one) => (one.includes('$') ? one : nameOf(BigInt(one))));
  return { needs: needed.map(nameOf), from: list.length > 0 ? several : single, matrix: facts };
}
