import { insertRows } from '../db/insert.ts';
import type { Queries } from '../db/open.ts';
import type { BuildRequestRow, BuildRow, FileSuiteRow, SuiteRow } from '../db/schema.ts';
import { columnsOf } from '../../shared/records/fields.ts';
import { suiteFields } from '../../shared/records/suite.ts';
import { columnsInVariant } from '../../shared/records/variant-settings.ts';
import { cappedPriority } from './priorities.ts';
import type { Rule } from './rules.ts';
import type { WriteContext } from './write-context.ts';

/**
 * The suites of a repository's file, stored under its digest, so commits with the same file share them. Nothing else
 * refers to them: the project's own suites change only with the default branch.
 */

export type SuiteSettings = Omit<SuiteRow, 'id' | 'project_id' | 'gates_of_file'>;

export interface SuiteOfFile {
  name: string;
  settings: SuiteSettings;
  rules: readonly Rule[];
  dependencies: readonly string[];
  needs: readonly string[];
  filesFrom: string | readonly string[];
}

/** The digest is blank if the commit has no file. */
export type BuiltBy = Pick<BuildRequestRow, 'config_file' | 'config_digest' | 'includes'>;
export interface ReadFile extends BuiltBy {
  suites: readonly SuiteOfFile[];
}
export const byProject: BuiltBy = { config_file: '', config_digest: '', includes: '[]' };

/** The caller holds the right `recording` of the project, so the same suites are stored only once. */
export async function storeFileSuites(
  { trx, ids }: WriteContext,
  { projectId, digest }: { projectId: bigint; digest: string },
  suites: readonly SuiteOfFile[],
): Promise<void> {
  if ((await rowsOf(trx, projectId, digest)).length > 0) return;
  const idOf = new Map(suites.map(({ name }) => [name, ids.next()]));
  const rows = suites.map((suite): FileSuiteRow => ({
    id: idOf.get(suite.name) ?? ids.next(),
    project_id: projectId,
    digest,
    name: suite.name,
    settings: JSON.stringify({
      ...suite.settings,
      needs: suiteFields.needs.toColumn(suite.needs.flatMap((needed) => idOf.get(needed) ?? [])),
      ...filesColumns(suite.filesFrom, idOf),
    }),
    rules: JSON.stringify(suite.rules),
    dependencies: JSON.stringify(suite.dependencies),
  }));
  await insertRows(trx, 'file_suites', rows);
}

const isPlain = (name: string): boolean => !name.includes('$');

/** JSON has no 64-bit integers. */
function filesColumns(from: SuiteOfFile['filesFrom'], idOf: ReadonlyMap<string, bigint>) {
  const isList = typeof from !== 'string';
  return {
    files_from_id: isList || !isPlain(from) ? null : (idOf.get(from)?.toString() ?? null),
    files_from_name: isList || isPlain(from) ? '' : from,
    files_from: JSON.stringify(
      isList ? from.flatMap((name) => (isPlain(name) ? (idOf.get(name)?.toString() ?? []) : name)) : [],
    ),
  };
}

function rowsOf(db: Queries, projectId: bigint, digest: string): Promise<FileSuiteRow[]> {
  const rows = db.selectFrom('file_suites').selectAll().where('project_id', '=', projectId);
  return rows.where('digest', '=', digest).orderBy('id').execute();
}

/** `suite_id` is the project's suite of the same name. */
export interface FileSuite extends SuiteSettings {
  id: bigint;
  suite_id: bigint | null;
  rules: Rule[];
}

const usual = columnsOf(
  suiteFields,
  Object.fromEntries(Object.entries(suiteFields).map(([name, { fallback }]) => [name, fallback])),
);

/** Rows of earlier versions lack later fields. */
function storedSettings(json: string): SuiteSettings {
  const { files_from_id: from, ...stored } = JSON.parse(json) as Omit<SuiteSettings, 'files_from_id'> & {
    files_from_id: string | null;
  };
  return { ...usual, ...stored, files_from_id: from === null ? null : BigInt(from) };
}

export async function suitesInFile(db: Queries, projectId: bigint, digest: string): Promise<FileSuite[]> {
  const rows = await rowsOf(db, projectId, digest);
  const suites = db.selectFrom('suites').select(['id', 'name', 'approval', 'approvers', 'manual', 'priority']);
  const present = await suites.where('project_id', '=', projectId).execute();
  const byName = new Map(present.map((suite) => [suite.name, suite]));
  return rows.map(({ id, name, settings, rules }) => {
    const fromFile = storedSettings(settings);
    const own = byName.get(name);
    // A branch's file can require an approval, but cannot remove the project's.
    const approval = Math.max(fromFile.approval, own?.approval ?? 0);
    const approvers = own?.approvers ?? fromFile.approvers;
    const manual = Math.max(fromFile.manual, own?.manual ?? 0);
    return {
      ...fromFile,
      approval,
      approvers,
      manual,
      priority: cappedPriority(fromFile, own),
      id,
      suite_id: own?.id ?? null,
      rules: JSON.parse(rules) as Rule[],
    };
  });
}

export const settingsInVariant = columnsInVariant;

type Built = Pick<BuildRow, 'project_id' | 'build_request_id' | 'suite_id' | 'suite_name' | 'variant'>;

/** The suite's settings as the build's request found them, for its variant. Undefined if the suite was deleted since. */
export async function settingsOf(
  db: Queries,
  build: Built,
): Promise<(SuiteSettings & { dependencies?: string[] }) | undefined> {
  const row = await db
    .selectFrom('build_requests')
    .innerJoin('file_suites', (join) =>
      join
        .onRef('file_suites.project_id', '=', 'build_requests.project_id')
        .onRef('file_suites.digest', '=', 'build_requests.config_digest'),
    )
    .select(['file_suites.settings', 'file_suites.dependencies'])
    .where('build_requests.id', '=', build.build_request_id)
    .where('file_suites.name', '=', build.suite_name)
    .executeTakeFirst();
  if (row) {
    const settings = settingsInVariant(storedSettings(row.settings), build.variant);
    return { ...settings, dependencies: JSON.parse(row.dependencies) as string[] };
  }
  const suite = await db.selectFrom('suites').selectAll().where('id', '=', build.suite_id).executeTakeFirst();
  return suite && settingsInVariant(suite, build.variant);
}

/** The newest request that built the commit by this path. Undefined if none did. */
export async function builtBefore(db: Queries, commitId: bigint, path: string): Promise<BuiltBy | undefined> {
  return db
    .selectFrom('build_requests')
    .select(['config_file', 'config_digest', 'includes'])
    .where('commit_id', '=', commitId)
    .where('config_file', '=', path)
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst();
}
