import type { BuildRow } from '../db/schema.ts';
import { completeLog } from '../streams/logs.ts';
import { logsOfServices, type ServiceProgress } from '../views/build-services.ts';
import type { StoredStep } from '../views/build-steps.ts';
import type { StoredUsage } from '../views/build-usage.ts';
import { noteServices } from './build-services.ts';
import { noteEnding } from './endings.ts';
import { buildMachine, isFinal, statesBefore, type BuildState } from './states.ts';
import type { LifecycleEvent, WriteContext } from './write-context.ts';

export interface BuildEnding {
  exit_status?: number | null;
  failure_reason?: string;
  output?: { from: number; to: number } | undefined;
  steps?: readonly StoredStep[] | undefined;
  services?: readonly ServiceProgress[] | undefined;
  usage?: StoredUsage | undefined;
}

const movedColumns = [
  'id',
  'project_id',
  'commit_id',
  'suite_id',
  'suite_name',
  'variant',
  'build_request_id',
  'retry',
  'retries_left',
  'faults',
  'approved_by',
  'concurrency_group',
  'deploy_id',
  'counts',
  'checks_id',
  'created_at',
  'started_at',
  'finished_at',
  'services',
  'resume',
  'from_build',
] as const;
export type MovedBuild = Pick<BuildRow, (typeof movedColumns)[number]>;

/**
 * Undefined if the build did not move. A final state also completes the log. The caller records events and requests
 * roll-ups.
 */
export async function writeMove(
  context: WriteContext,
  { id }: Pick<BuildRow, 'id'>,
  to: BuildState,
  { exit_status = null, failure_reason = '', output, steps, services, usage }: BuildEnding = {},
): Promise<{ build: MovedBuild; event: LifecycleEvent } | undefined> {
  const { db, trx } = context;
  const now = BigInt(Date.now());
  const part = { output_from: output ? BigInt(output.from) : null, output_to: output ? BigInt(output.to) : null };
  const ended = {
    finished_at: now,
    exit_status,
    failure_reason,
    held: '',
    ...part,
    ...(steps && { steps: JSON.stringify(steps) }),
    ...(usage && { usage: JSON.stringify(usage) }),
  };
  const begun = to === 'running' ? { started_at: now } : {};
  const build = await trx
    .updateTable('builds')
    .set({ build_state: to, ...(isFinal(buildMachine, to) ? ended : begun) })
    .where('id', '=', id)
    .where('build_state', 'in', statesBefore(buildMachine, to))
    .returning(movedColumns)
    .executeTakeFirst();
  if (!build) return undefined;
  if (isFinal(buildMachine, to)) {
    await completeLog(db, trx, build.id);
    if (services) await noteServices(context, build, services);
    for (const log of logsOfServices(build)) await completeLog(db, trx, log);
    noteEnding(context, { type: 'build', state: to, ...build });
  }
  return { build, event: { projectId: build.project_id, subjectId: build.id, type: 'build', state: to } };
}
