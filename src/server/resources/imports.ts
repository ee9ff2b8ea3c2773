import { projectRoute } from '../api/route.ts';
import { ApiError, type ErrorCode } from '../../shared/errors.ts';
import { configChangeRecord, importFields, importRecord } from '../../shared/records/project.ts';
import { linesOf, mistake, RefusedError, type DocumentFile } from '../../shared/documents/mistakes.ts';
import { ownFiles } from '../../shared/domain/workflow-files.ts';
import { foundWorkflows, lastCheck } from '../triggers/connection-checks.ts';
import { configure } from './config-apply.ts';
import { documentOf } from './config-document.ts';
import { planningWith } from './config-plan.ts';
import { readProject, type Reading } from './config-present.ts';
import { askImporter } from '../triggers/import-thread.ts';

const inFile = (lines: readonly string[]): ApiError => ApiError.inWords('invalid_format', 'toml', lines.join('\n'));

/** These are about the caller or the moment, not about the file. */
const notOfFile: readonly ErrorCode[] = [
  'unauthorized',
  'account_suspended',
  'payment_required',
  'resource_temporary_unavailable',
  'limit_reached',
];

export const routes = [
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/import',
    access: 'maintainer',
    scope: 'projects',
    summary:
      'The files of other CI systems that the last connection check found, translated to one file of Headrace (TOML), ' +
      'and what it leaves out; changes nothing',
    answer: importRecord,
    async handle({ db, database, project }) {
      const check = await lastCheck(db, project.id);
      const own = ownFiles.find((name) => check?.files.includes(name));
      if (own !== undefined)
        throw ApiError.inWords('already_exists', 'generic', `The repository has a ${own}, so nothing is imported.`);
      if (!check || check.workflows.length === 0)
        throw ApiError.inWords(
          'resource_temporary_unavailable',
          'generic',
          'The last connection check found no file of another CI system. Check the connection again.',
        );
      const answer = await askImporter(database, project.owner_id, {
        workflows: await foundWorkflows(db, project.id),
        defaultBranch: check.default_branch ?? undefined,
      });
      if ('toml' in answer) return answer;
      throw ApiError.inWords('invalid_format', 'generic', 'refused' in answer ? answer.refused.join('\n') : '');
    },
  }),
  projectRoute({
    method: 'POST',
    path: '/projects/:project_id/import',
    access: 'maintainer',
    scope: 'projects',
    summary:
      'Add what a file of Headrace (TOML) describes to a project, all or nothing: its suites, its schedules, and those ' +
      'variables and parameters that the project does not have. Changes and deletes nothing else. Variables with keep ' +
      'that the project does not have are skipped. With dry_run, it only reports what would change',
    body: importFields,
    answer: configChangeRecord,
    audit: 'nothing', // each change has its own entry
    isTrial: ({ dry_run: isTrial = false }) => isTrial,
    async ask({ database, project, input: { toml } }): Promise<{ file: DocumentFile }> {
      const answer = await askImporter(database, project.owner_id, { toml });
      if ('file' in answer) return answer;
      throw inFile('refused' in answer ? answer.refused : []);
    },
    async handle(call) {
      const { file, input } = call;
      if (!file) throw new ApiError('invalid_format', 'toml');
      try {
        const document = JSON.stringify(await together(call, call.project.id, file));
        return await configure(call, { document, isTrial: input.dry_run, mayDelete: false });
      } catch (error) {
        if (error instanceof RefusedError) throw inFile(error.lines);
        const isOfFile =
          error instanceof ApiError &&
          !Object.values(error.fields)
            .flat()
            .some((code) => notOfFile.includes(code));
        throw isOfFile ? inFile(linesOf(error, file)) : error;
      }
    },
  }),
];

type Entries = readonly Readonly<Record<string, unknown>>[];
type Sections = Partial<Record<'suites' | 'schedules' | 'variables' | 'parameters', Entries>>;

const keyOf = (names: readonly string[], entry: Entries[number]): string =>
  JSON.stringify(names.map((name) => entry[name] ?? ''));

function added(present: Entries = [], given: Entries = [], ...names: string[]): Entries {
  const known = new Set(present.map((entry) => keyOf(names, entry)));
  return [...present, ...given.filter((entry) => !known.has(keyOf(names, entry)))];
}

/** The project as it is, with the file's entries added. Those of the same name stay as they are, except suites. */
async function together(reading: Reading, id: bigint, file: DocumentFile): Promise<object> {
  const { suites = [], schedules, variables, parameters, ...others } = file.plain as Sections;
  const [other] = Object.keys(others);
  if (other !== undefined)
    throw new RefusedError([
      mistake(file, other, `${other}: only suites, schedules, variables and parameters are imported.`),
    ]);
  const now = documentOf(await readProject(planningWith(reading), id)) as Sections;
  return {
    ...now,
    suites: [...(now.suites ?? []), ...suites],
    schedules: added(now.schedules, schedules, 'cron', 'time_zone', 'commit_ref'),
    variables: added(
      now.variables,
      variables?.filter(({ keep }) => keep !== true),
      'name',
    ),
    parameters: added(now.parameters, parameters, 'name'),
  };
}
