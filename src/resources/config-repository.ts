import { recordAudit } from '../auth/audit.ts';
import { callerInRepository } from '../auth/callers.ts';
import { callsWithin } from '../api/endpoints.ts';
import type { Services } from '../api/call.ts';
import type { Route } from '../api/route.ts';
import type { BuildRequestRow, ProjectRow } from '../db/schema.ts';
import { ApiError } from '../errors.ts';
import type { WriteContext } from '../lifecycle/write-context.ts';
import { readDocument, type Node } from './config-document.ts';
import { isSame, projectFields, type DocumentField } from './config-kinds.ts';
import { entryOf, planFor, planningWith, runSteps, type Step } from './config-plan.ts';
import { linesOf, RefusedError, tableIn, type Table } from './config-words.ts';

/**
 * A project that is configured by a file in its repository. Whoever can push to the default branch writes that file, so
 * it does what a collaborator may do, and nothing that cannot be taken back by another commit: it makes and changes
 * suites, deploy strategies and schedules. Secrets, hooks, notifications and the project itself stay with its owner.
 */

export interface FoundFile {
  project: ProjectRow;
  request: BuildRequestRow;
  sha: string;
  text: string;
  /** Locks what has to be locked before the project (lifecycle/pending-effects.ts). */
  holdFirst?: () => Promise<unknown>;
}

export type Configured = { logLines: string[] } | { refused: string[] };

/** Returns a function that applies such a file on a transaction. Where it is refused, the transaction has to be undone. */
export function configuringFrom(
  routes: readonly Route[],
  services: Services,
  origin: string,
): (context: WriteContext, file: FoundFile) => Promise<Configured> {
  const within = callsWithin(routes, services, origin);
  return async ({ db, trx, ids }, { project, request, sha, text, holdFirst }) => {
    const path = project.config_file;
    try {
      const owners = trx.selectFrom('users').selectAll().where('id', '=', project.owner_id);
      const caller = callerInRepository(await owners.executeTakeFirstOrThrow());
      const planning = planningWith({ db: trx, within: within(caller, trx) });
      const record = (await planning.within('GET /projects/:project_id', { project_id: project.id })) as object;
      const said = await tableIn(text, path);
      const wanted = readWanted(said, record);
      const steps = await planFor(planning, project.id, wanted);
      const { run, kept } = chosen(steps, said);
      if (run.length > 0) {
        await runSteps(trx, db, project.id, run, holdFirst);
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
      return { logLines: [`Configured by ${path}: ${news}.`, ...kept] };
    } catch (error) {
      if (error instanceof RefusedError) return { refused: error.lines };
      if (error instanceof ApiError) return { refused: linesOf(error, path) };
      throw error;
    }
  };
}

/** What the file says of the project itself has to be so already; what it does not say stays as it is. */
function readWanted(said: Table, record: object): Node {
  const now = entryOf(projectFields, record);
  const changed = projectFields.filter(
    ({ name }) => said[name] !== undefined && !isSame(said[name] as never, now[name]),
  );
  if (changed.length > 0) throw new RefusedError(changed.map(ownersOnly));
  const wanted = readDocument(JSON.stringify({ ...said, ...now }));
  for (const { children } of [wanted, ...(wanted.children.suites ?? [])]) {
    for (const { entry, at } of children.variables ?? []) {
      if (entry.from_env !== '')
        throw new RefusedError([`${at}: a file in a repository has no from_env. Write keep = true.`]);
      // A value that is kept stays what it is, wherever the owner has it from.
      if (entry.content === undefined) delete (entry as Record<string, unknown>).from_env;
    }
  }
  return wanted;
}

const ownersOnly = ({ name }: DocumentField): string =>
  `${name}: a file in a repository does not change this. Leave it out, or change it in the settings of the project.`;

/** One transaction holds up others. */
const mostChanges = 500;

const owners = new Set(['project', 'hooks', 'notifications', 'variables']);
/** What is deleted with the file: it takes nothing else along. */
const removable = new Set(['rules', 'dependencies']);
/** What is told to be there without being in the file. */
const toldOf = new Set(['suites', 'deploy_strategies', 'schedules']);

/** The value of a variable that is no secret, and was none: what a command in the file could say as well. */
function isOpenValue({ section, fields }: Step): boolean {
  return section === 'variables' && fields.every(({ name }) => name === 'content');
}

function chosen(steps: readonly Step[], said: Table): { run: Step[]; kept: string[] } {
  if (steps.length > mostChanges) throw new RefusedError([`These are more than ${mostChanges} changes at once.`]);
  const refused = steps.filter((step) => owners.has(step.section) && step.action !== 'delete' && !isOpenValue(step));
  if (refused.length > 0)
    throw new RefusedError(
      refused.map(
        ({ action, what }) =>
          `${what}: a file in a repository does not ${action} this. Do that in the settings, or with headrace apply.`,
      ),
    );
  const kept = steps
    .filter(({ action, section }) => action === 'delete' && toldOf.has(section) && said[section] !== undefined)
    .map(({ what }) => `The ${what} is not in the file. It stays until somebody deletes it in the settings.`);
  return { run: steps.filter(({ action, section }) => action !== 'delete' || removable.has(section)), kept };
}
