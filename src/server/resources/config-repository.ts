import { recordAudit } from '../auth/audit.ts';
import { callerInRepository } from '../auth/callers.ts';
import { callsWithin } from '../api/endpoints.ts';
import type { CallDeps } from '../api/call.ts';
import type { Route } from '../api/route.ts';
import type { Queries } from '../db/open.ts';
import type { BuildRequestRow, ProjectRow, SuiteRow } from '../db/schema.ts';
import { ApiError } from '../../shared/errors.ts';
import { UnavailableError } from '../db/unavailable.ts';
import { imageBuildsOff } from '../../shared/domain/image-builds.ts';
import { readTable } from '../../shared/documents/document.ts';
import { checkFile, type FileSuite } from '../../shared/documents/file.ts';
import { isSame, projectFields, type DocumentField, type Entry, type Node } from '../../shared/documents/kinds.ts';
import {
  linesOf,
  mistake,
  readFile,
  RefusedError,
  withIncluded,
  type DocumentFile,
  type ParsedFile,
} from '../../shared/documents/mistakes.ts';
import { variantsOf } from '../../shared/domain/matrix.ts';
import { valuesIn } from '../../shared/records/fields.ts';
import { matrixFields } from '../../shared/records/suite.ts';
import { columnsInVariant } from '../../shared/records/variant-settings.ts';
import { resolve, type Table } from '../../shared/documents/templates.ts';
import { BusyThreadError, createWorkerThread } from '../../shared/lib/worker-thread.ts';
import type { SuiteOfFile } from '../lifecycle/file-suites.ts';
import { gates, gatesOfPeople } from '../lifecycle/gates.ts';
import type { WriteContext } from '../lifecycle/write-context.ts';
import { leavingGuarded } from './config-guards.ts';
import { planFor, planningWith, runCalls } from './config-plan.ts';
import { keepStops } from './config-reuse.ts';
import { readProject } from './config-present.ts';
import type { PlannedCall } from './planned-call.ts';

/**
 * Each commit is built by its own file, and the default branch's newest file is applied to the project. Anyone who can
 * push to that branch can write it. So the file may do only what a collaborator may do and another commit can undo:
 * create and change suites, deploy strategies and schedules. Only the owner changes secrets, hooks, notifications and
 * the project.
 */

export function configuringFrom(routes: readonly Route[], deps: CallDeps, origin: string) {
  const within = callsWithin(routes, deps, origin);
  const thread = createWorkerThread<string, ParsedFile>('shared/documents/yaml-worker.ts', threadLimits);
  return {
    close: () => thread.close(),
    /** Without `included`, suites are not judged for what they may take from it. */
    read: ({ project, text, included }: FileToRead) =>
      orRefused(async () => {
        const parse = (yaml: string): Promise<ParsedFile> =>
          thread.ask(project.owner_id, yaml).catch((error: unknown) => {
            if (error instanceof BusyThreadError) throw new UnavailableError('too many files have to be read at once');
            return { problem: 'it is nested too deeply, or too large.' };
          });
        const own = await readFile(text, project.config_file, parse);
        const file = included ? await withIncluded(own, included, parse) : own;
        const checked = checkFile(file);
        return {
          includes: checked.includes,
          mistake: (index: number, what: string) => mistake(own, `include[${index}]`, `include[${index}] ${what}.`),
          suites: (context: WriteContext) => orRefused(() => allowed(context, project, { file, ...checked }, deps)),
          apply: ({ db, trx, ids }: WriteContext, about: Fetched) =>
            orRefused(() => apply({ db, trx, ids, within }, project, file, about), file),
        };
      }),
  };
}

const threadLimits = { mostOfOne: 16, mostOfAll: 256, timeoutMs: 10_000 };

interface FileToRead {
  project: ProjectRow;
  text: string;
  included?: readonly { path: string; text: string }[];
}

interface Fetched {
  request: BuildRequestRow;
  sha: string;
  refs: readonly string[];
  /** Locks the rows whose locks come before the project's (db/lock-order.ts). */
  holdFirst: () => Promise<unknown>;
}

/** `refused` contains sentences about mistakes in the file. */
async function orRefused<T>(work: () => Promise<T>, file?: DocumentFile): Promise<T | { refused: string[] }> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof RefusedError) return { refused: error.lines };
    if (file && error instanceof ApiError) return { refused: linesOf(error, file) };
    throw error;
  }
}

/**
 * Returns the file's suites if the project may build them. Anyone who can push to any branch may have written the file.
 * So it may use only the account's dependencies, or those of the suite with the same name. Unless the project trusts
 * branches with secrets, it may use only the runner tags of the project's suites.
 */
async function allowed(
  { trx }: WriteContext,
  project: ProjectRow,
  { file, suites }: { file: DocumentFile; suites: readonly FileSuite[] },
  { buildTimeout, imageBuilds }: Pick<CallDeps, 'buildTimeout' | 'imageBuilds'>,
): Promise<SuiteOfFile[]> {
  const present = await trx
    .selectFrom('suites')
    .select(['id', 'name', 'tags', 'matrix', 'matrix_include', 'matrix_exclude'])
    .where('project_id', '=', project.id)
    .execute();
  const tags = new Set(present.flatMap(tagsOfVariants));
  const own = trx.selectFrom('dependencies').select('name').where('owner_id', '=', project.owner_id);
  const names = suites.flatMap(({ dependencies }) => dependencies);
  const known = new Set(
    names.length === 0 ? [] : (await own.where('name', 'in', names).execute()).map(({ name }) => name),
  );
  const attached = trx
    .selectFrom('suite_dependencies as use')
    .innerJoin('suites', 'suites.id', 'use.suite_id')
    .innerJoin('dependencies', 'dependencies.id', 'use.dependency_id')
    .select(['suites.name as suite', 'dependencies.name'])
    .where('suites.project_id', '=', project.id);
  const used = new Set((await attached.execute()).map(({ suite, name }) => JSON.stringify([suite, name])));
  const wrong: string[] = [];
  for (const { name, at, settings, dependencies } of suites) {
    const refuse = (field: string, what: string): void => {
      wrong.push(mistake(file, `${at}[${field}]`, `${at}[${field}] ${what}`));
    };
    if (settings.timeout > buildTimeout) refuse('timeout', `is more than the ${buildTimeout} seconds of the server.`);
    if (settings.builds_images === 1 && !imageBuilds) refuse('builds_images', `is refused: ${imageBuildsOff}`);
    for (const tag of tagsOfVariants(settings))
      if (project.branch_secrets === 0 && tag !== '' && !tags.has(tag))
        refuse('tags', `names ${tag}, which no suite of the project has: a branch cannot choose other runners.`);
    for (const dependency of dependencies)
      if (!known.has(dependency) && !used.has(JSON.stringify([name, dependency])))
        refuse('dependencies', `names ${dependency}, which does not exist.`);
  }
  if (wrong.length > 0) throw new RefusedError(wrong);
  return suites.map(({ at: _at, ...suite }) => suite);
}

/** The tags of all its variants. */
function tagsOfVariants(suite: Pick<SuiteRow, 'tags' | 'matrix' | 'matrix_include' | 'matrix_exclude'>): string[] {
  const { matrix, matrix_include, matrix_exclude } = matrixFields;
  const variants = suite.tags.includes('$')
    ? variantsOf(valuesIn({ matrix, matrix_include, matrix_exclude }, suite))
    : [''];
  return [...new Set(variants.flatMap((variant) => columnsInVariant({ tags: suite.tags }, variant).tags.split(',')))];
}

interface Applying extends Pick<WriteContext, 'db' | 'trx' | 'ids'> {
  within: ReturnType<typeof callsWithin>;
}

/** Returns log lines. */
async function apply(
  { db, trx, ids, within }: Applying,
  project: ProjectRow,
  file: DocumentFile,
  { request, sha, refs, holdFirst }: Fetched,
): Promise<string[]> {
  const { path } = file;
  const owners = trx.selectFrom('users').selectAll().where('id', '=', project.owner_id);
  const caller = callerInRepository(await owners.executeTakeFirstOrThrow());
  const planning = planningWith({ db: trx, within: within(caller, trx) });
  const present = await readProject(planning, project.id);
  const asked = readWanted(file, present.entry);
  const gates = await keepGates(trx, project.id, asked);
  const stops = await keepStops(trx, project.id, asked);
  const guarding = { db: trx, projectId: project.id, own: refs };
  const { wanted, kept: guarded } = await leavingGuarded(guarding, present, asked);
  const calls = planFor(planning, present, wanted);
  const { run, kept } = chosen(calls, file.plain as Table);
  if (run.length > 0) {
    await runCalls(trx, db, project.id, run, holdFirst);
    const { id, email, via, application } = caller;
    await recordAudit(
      trx,
      ids,
      { actor: { id, email }, via, application, address: null },
      {
        action: 'project.configured',
        subject: { id: project.id, name: project.name },
        projectId: project.id,
        details: {
          commit: sha,
          file: path,
          sender: request.sender,
          changes: run.map(({ action, what }) => `${action} ${what}`).slice(0, 100),
        },
      },
    );
  }
  const news = run.length === 0 ? 'nothing to change' : `${run.length} ${run.length === 1 ? 'change' : 'changes'}`;
  return [`Configured by ${path}: ${news}.`, ...guarded, ...kept, ...gates, ...stops];
}

/** The project's field that a file may change: it needs no more trust than a suite. */
const parameters = 'parameters';

/** Refuses a file that changes other fields of the project itself. Fields that the file lacks stay unchanged. */
function readWanted(file: DocumentFile, now: Entry): Node {
  const table = file.plain as Table;
  const changed = projectFields.filter(
    ({ name }) => name !== parameters && table[name] !== undefined && !isSame(table[name] as never, now[name]),
  );
  if (changed.length > 0) throw new RefusedError(changed.map((field) => mistake(file, field.name, ownersOnly(field))));
  const { include: _, ...settings } = table;
  const wanted = readTable(resolve({ ...settings, ...now, [parameters]: table[parameters] ?? now[parameters] }));
  for (const { children } of [wanted, ...(wanted.children.suites ?? [])])
    for (const { entry } of children.variables ?? [])
      // A variable keeps its value, even if the owner set an environment variable as its source.
      if (entry.content === undefined) delete (entry as Record<string, unknown>).from_env;
  return wanted;
}

/** Gates that a user has set stay unchanged. Returns log lines. */
async function keepGates(db: Queries, projectId: bigint, { children }: Node): Promise<string[]> {
  const suites = db
    .selectFrom('suites')
    .select(['name', 'gates_of_file', ...gates])
    .where('project_id', '=', projectId);
  const kept = new Map((await suites.execute()).map((suite) => [suite.name, gatesOfPeople(suite)]));
  return (children.suites ?? []).flatMap(({ entry }) => {
    const name = `${entry.name as string | number}`;
    return (kept.get(name) ?? []).flatMap((gate) => {
      if (entry[gate] === true) return [];
      (entry as Record<string, unknown>)[gate] = true;
      return [
        `The suite ${name} keeps ${gate} = true: a user set it in the settings, so only a user can remove it there.`,
      ];
    });
  });
}

const ownersOnly = ({ name }: DocumentField): string =>
  `${name}: a file in a repository cannot change this. Remove it, or change it in the settings of the project.`;

/** A transaction blocks other requests, so the number of changes is limited. */
const mostChanges = 500;

const owners = new Set(['project', 'hooks', 'notifications', 'variables']);
/** Sections whose missing entries are deleted. No other records are deleted with them. */
const removable = new Set(['rules', 'dependencies']);
/** Sections whose missing entries are only logged. */
const reported = new Set(['suites', 'deploy_strategies', 'schedules']);

/**
 * True if only the value of a variable changes, and the variable was and stays no secret. A command in the file could
 * contain such a value too.
 */
function isOpenValue({ section, fields }: PlannedCall): boolean {
  return section === 'variables' && fields.every(({ name }) => name === 'content');
}

function areParameters({ section, fields }: PlannedCall): boolean {
  return section === 'project' && fields.every(({ name }) => name === parameters);
}

function chosen(calls: readonly PlannedCall[], table: Table): { run: PlannedCall[]; kept: string[] } {
  if (calls.length > mostChanges) throw new RefusedError([`These are more than ${mostChanges} changes at once.`]);
  const refused = calls.filter(
    (one) => owners.has(one.section) && one.action !== 'delete' && !isOpenValue(one) && !areParameters(one),
  );
  if (refused.length > 0)
    throw new RefusedError(
      refused.map(
        ({ action, what }) =>
          `${what}: a file in a repository cannot ${action} this. Do that in the settings, or with headrace apply.`,
      ),
    );
  const kept = calls
    .filter(({ action, section }) => action === 'delete' && reported.has(section) && table[section] !== undefined)
    .map(({ what }) => `The ${what} is not in the file. It stays until a user deletes it in the settings.`);
  return { run: calls.filter(({ action, section }) => action !== 'delete' || removable.has(section)), kept };
}
