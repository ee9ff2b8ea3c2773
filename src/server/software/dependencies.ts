import { sql } from 'kysely';
import type { DependencyRow } from '../db/schema.ts';
import { cancel, drop, enqueue, holdJobsOf, makeAccountDue } from '../queue/queue.ts';
import { addLine, completeLog, removeLog, restartLog } from '../streams/logs.ts';
import { dependencyMoved, recordEvent } from '../lifecycle/pending-effects.ts';
import { subjectTopic, type WriteContext } from '../lifecycle/write-context.ts';
import { dependencyMachine as machine, statesBefore, type DependencyState } from '../lifecycle/states.ts';

type Owned = Pick<DependencyRow, 'id' | 'owner_id'>;

export interface Archive {
  digest: string;
  kind: string;
  contentType: string;
  size: bigint;
}

/**
 * Records an event for the dependency's streams, for its account's projects, and for projects with a suite that uses
 * it.
 */
export async function dependencyHappened(
  context: WriteContext,
  dependency: Owned,
  state: DependencyState,
): Promise<void> {
  const { db, trx } = context;
  const { id } = dependency;
  const { last_event: sequence } = await trx
    .updateTable('dependencies')
    .set((of) => ({ last_event: of('last_event', '+', 1n) }))
    .where('id', '=', id)
    .returning('last_event')
    .executeTakeFirstOrThrow();
  const event = { dependency_id: id, sequence, state, created_at: BigInt(Date.now()) };
  await trx.insertInto('dependency_events').values(event).execute();
  await db.announce(trx, subjectTopic(id));
  for (const projectId of await projectsConcerned(context, dependency))
    recordEvent(context, { projectId, subjectId: id, type: 'dependency', state });
  dependencyMoved(context, id);
}

async function projectsConcerned({ trx }: WriteContext, { id, owner_id: ownerId }: Owned): Promise<bigint[]> {
  const using = trx
    .selectFrom('suite_dependencies')
    .innerJoin('suites', 'suites.id', 'suite_dependencies.suite_id')
    .select('suites.project_id')
    .where('suite_dependencies.dependency_id', '=', id);
  const projects = await trx
    .selectFrom('projects')
    .select('id')
    .where((where) => where.or([where('owner_id', '=', ownerId), where('id', 'in', using)]))
    .execute();
  return projects.map((project) => project.id);
}

/** False if the dependency's current state does not allow the move. */
async function move(
  context: WriteContext,
  dependency: Owned,
  [from, to]: [readonly DependencyState[], DependencyState],
  columns: Partial<DependencyRow> = {},
): Promise<boolean> {
  const { numUpdatedRows } = await context.trx
    .updateTable('dependencies')
    .set({ ...columns, state: to })
    .where('id', '=', dependency.id)
    .where('state', 'in', from)
    .executeTakeFirst();
  if (numUpdatedRows !== 1n) return false;
  await dependencyHappened(context, dependency, to);
  return true;
}

/** The states that accept a new archive: not while an earlier one waits to be compiled or is being compiled. */
const takesArchive = machine.states.filter((state) =>
  [...machine.moves[state], ...machine.again[state]].includes('enqueued_for_compile'),
);

export function canTakeArchive({ state }: Pick<DependencyRow, 'state'>): boolean {
  return takesArchive.includes(state as DependencyState);
}

export async function takeArchive(context: WriteContext, dependency: Owned, archive: Archive): Promise<boolean> {
  return enqueueCompile(context, dependency, takesArchive, {
    archive: archive.digest,
    archive_kind: archive.kind,
    archive_content_type: archive.contentType,
    archive_file_size: archive.size,
  });
}

export async function compileAgain(context: WriteContext, dependency: Owned): Promise<boolean> {
  const withArchive = takesArchive.filter((state) => state !== machine.initial);
  return enqueueCompile(context, dependency, withArchive);
}

async function enqueueCompile(
  context: WriteContext,
  dependency: Owned,
  from: readonly DependencyState[],
  columns: Partial<DependencyRow> = {},
): Promise<boolean> {
  const { db, trx, ids } = context;
  const { id, owner_id: accountId } = dependency;
  await holdJobsOf(db, trx, [id]); // before the dependency, in the same order as the end of its compile
  if (!(await move(context, dependency, [from, 'enqueued_for_compile'], columns))) return false;
  await cancel(db, trx, [id]); // the last compile's log is replaced, so it need not be packed
  await restartLog(trx, id);
  await enqueue(db, trx, ids, { kind: 'compile_dependency', subjectId: id, accountId });
  return true;
}

/** Also repeats a compile whose runner was lost. */
export async function beginCompile(context: WriteContext, dependency: DependencyRow): Promise<boolean> {
  const { id, prefix } = dependency;
  const prepared = { compile_prefix: prefix };
  if (dependency.state !== 'compiling')
    return move(context, dependency, [statesBefore(machine, 'compiling'), 'compiling'], prepared);
  await context.trx.updateTable('dependencies').set(prepared).where('id', '=', id).execute();
  return true;
}

export async function finishCompile(context: WriteContext, dependency: Owned, result: string): Promise<void> {
  const { db, trx } = context;
  const { id } = dependency;
  const finished = await trx
    .updateTable('dependencies')
    .set((of) => ({
      result,
      result_prefix: of.ref('compile_prefix'),
      state: sql<string>`case when shared = 1 then 'shared' else 'compiled' end`,
    }))
    .where('id', '=', id)
    .where('state', 'in', statesBefore(machine, 'compiled'))
    .returning('state')
    .executeTakeFirst();
  if (!finished) return;
  await completeLog(db, trx, id);
  await wakeWaiting(context, dependency.owner_id);
  await dependencyHappened(context, dependency, finished.state as DependencyState);
}

/** `why` is added to the log. Blank if the log already has it. */
export async function failCompile(context: WriteContext, dependency: Owned, why = ''): Promise<void> {
  const { db, trx } = context;
  if (why !== '') await addLine(db, trx, dependency.id, why);
  if (!(await move(context, dependency, [statesBefore(machine, 'compile_failed'), 'compile_failed']))) return;
  await completeLog(db, trx, dependency.id);
  await wakeWaiting(context, dependency.owner_id);
}

/** Only jobs of the same account wait for a compile. */
export async function wakeWaiting({ db, trx }: WriteContext, ownerId: bigint): Promise<void> {
  await makeAccountDue(db, trx, ownerId, ['run_suite', 'compile_dependency']);
}

export async function share(context: WriteContext, dependency: DependencyRow): Promise<boolean> {
  if (dependency.shared === 1) return true;
  return move(context, dependency, [['compiled'], 'shared'], { shared: 1 });
}

export async function unshare(context: WriteContext, dependency: DependencyRow): Promise<boolean> {
  if (await move(context, dependency, [['shared'], 'compiled'], { shared: 0 })) return true;
  const { numUpdatedRows } = await context.trx
    .updateTable('dependencies')
    .set({ shared: 0 })
    .where('id', '=', dependency.id)
    .where((where) => where.or([where('shared', '=', 1), where('state', '=', 'compiled')]))
    .executeTakeFirst();
  return numUpdatedRows === 1n;
}

export async function dropCompile({ db, trx }: WriteContext, id: bigint): Promise<void> {
  const subject = trx.selectFrom('dependencies').select('id').where('id', '=', id);
  await drop(db, trx, subject as never);
  await removeLog(trx, id);
  await db.announce(trx, subjectTopic(id));
}
