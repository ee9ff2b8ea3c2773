import { ApiError, type FieldErrors } from '../errors.ts';
import { valuesIn, type ColumnsOf } from '../records/fields.ts';
import { matrixFields, type ruleFields, type suiteFields } from '../records/suite.ts';
import { most } from '../domain/bounds.ts';
import { variantsOf } from '../domain/matrix.ts';
import { readTable, type Node } from './document.ts';
import { rawOf, strategies, suites, type DocumentField, type Entry } from './kinds.ts';
import { linesOf, mistake, RefusedError, type DocumentFile } from './mistakes.ts';

/** A file in a repository as builds use it. */

/** A suite of a file, in the form of its row. */
export interface FileSuite {
  name: string;
  /** Its path in the file, for errors. */
  at: string;
  settings: ColumnsOf<typeof suiteFields>;
  rules: ColumnsOf<typeof ruleFields>[];
  /** By their names. */
  dependencies: readonly string[];
  needs: readonly string[];
  /** The name of the needed suite whose files it begins with, or blank. */
  filesFrom: string;
}

export interface CheckedFile {
  document: Node;
  suites: FileSuite[];
}

/** Finds every mistake in a file that can be found without its project, and throws them as a RefusedError. */
export function checkFile(file: DocumentFile): CheckedFile {
  try {
    const document = readTable(file.table, true);
    const nodes = document.children[suites.section] ?? [];
    refuseSources(file, [document, ...nodes]);
    const read = nodes.map(suiteOf);
    refuseTooMany(read);
    refuseNeeds(read);
    refuseStrategies(document.children[strategies.section] ?? [], read);
    return { document, suites: read };
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    throw new RefusedError(linesOf(error, file));
  }
}

function suiteOf({ entry, at, children, dependencies }: Node): FileSuite {
  const rules = (children.rules ?? []).map((rule) => columnsOf(ruleKind?.fields ?? [], rule.entry));
  return {
    name: `${entry.name as string | number}`,
    at,
    settings: columnsOf(suites.fields, entry) as FileSuite['settings'],
    rules: rules as FileSuite['rules'],
    dependencies,
    needs: entry.needs as readonly string[],
    filesFrom: (entry.files_from as string | undefined) ?? '',
  };
}

const ruleKind = suites.children?.find(({ section }) => section === 'rules');

/** The fields were read without a mistake. Each is parsed once more, as by the API. */
function columnsOf(fields: readonly DocumentField[], entry: Entry): Record<string, unknown> {
  const columns = fields.flatMap(({ name, field, fallback, isApart, valueIn: isNamed }) => {
    if (!field || (isApart && isNamed)) return [];
    const value = isApart ? fallback : (entry[name] ?? fallback);
    const isGiven = value !== fallback && (value !== '' || field.takesBlank);
    const raw = typeof value === 'object' ? rawOf(value) : String(value);
    return [[name, field.toColumn(isGiven ? field.parse(raw) : fallback)]];
  });
  return Object.fromEntries(columns) as Record<string, unknown>;
}

/** Suites may need only others of the file, and none may need itself in the end. */
function refuseNeeds(read: readonly FileSuite[]): void {
  const needsOf = new Map(read.map(({ name, needs }) => [name, needs]));
  const variantsBy = new Map(read.map(({ name, settings }) => [name, variantsIn(settings)]));
  const errors: FieldErrors = {};
  for (const { name, at, needs, filesFrom } of read) {
    const others = variantsBy.get(filesFrom) ?? '';
    if (filesFrom !== '' && (!needs.includes(filesFrom) || (others !== '' && others !== variantsBy.get(name))))
      errors[`${at}[files_from]`] = ['invalid_format'];
    if (needs.length > most.neededSuites) errors[`${at}[needs]`] = ['invalid_format'];
    if (needs.some((needed) => !needsOf.has(needed))) errors[`${at}[needs]`] = ['not_found'];
    const behind = new Set(needs);
    for (const needed of behind) for (const further of needsOf.get(needed) ?? []) behind.add(further);
    if (behind.has(name)) errors[`${at}[needs]`] ??= ['invalid_format'];
  }
  if (Object.keys(errors).length > 0) throw ApiError.ofFields(errors);
}

const variantsIn = (settings: FileSuite['settings']): string => variantsOf(valuesIn(matrixFields, settings)).join('\n');

/** Deploys may run only manual suites of the file. */
function refuseStrategies(nodes: readonly Node[], read: readonly FileSuite[]): void {
  const manualOf = new Map<unknown, number>(read.map(({ name, settings }) => [name, settings.manual]));
  const errors: FieldErrors = {};
  for (const { at, entry } of nodes.filter((node) => node.entry.suite !== '')) {
    const manual = manualOf.get(entry.suite);
    if (manual !== 1) errors[`${at}[suite]`] = [manual === undefined ? 'not_found' : 'invalid_format'];
  }
  if (Object.keys(errors).length > 0) throw ApiError.ofFields(errors);
}

/** One request builds all combinations. */
function refuseTooMany(read: readonly FileSuite[]): void {
  const counts = read.map(({ settings }) => variantsOf(valuesIn(matrixFields, settings)).length);
  if (counts.reduce((sum, count) => sum + count, 0) > most.variantsOfProject)
    throw new ApiError('is_reserved', suites.section);
}

/** When a file of a repository is read, there is no environment of a person. */
function refuseSources(file: DocumentFile, nodes: readonly Node[]): void {
  const variables = nodes.flatMap(({ children }) => children.variables ?? []);
  const wrong = variables.filter(({ entry }) => entry.from_env !== '');
  if (wrong.length > 0)
    throw new RefusedError(
      wrong.map(({ at }) => mistake(file, at, `${at}: a file in a repository has no from_env. Write keep = true.`)),
    );
}
