import { sealedPlace, type BuildRow } from '../db/schema.ts';
import { advanceBuild, loseBuild } from '../lifecycle/builds.ts';
import type { BuildState } from '../lifecycle/states.ts';
import type { Outcome } from '../protocol.ts';
import { addToLog } from '../streams/logs.ts';
import type { Bench, Kind } from './kind.ts';
import { suiteSoftware } from './software.ts';
import { sourceOf } from './sources.ts';

/** One attempt at one suite: the command's exit decides. */
export const runSuite: Kind = {
  async order(bench, job) {
    const build = await buildOf(bench, job.subject_id);
    const parts = build && (await partsOf(bench, build));
    if (!build) return undefined;
    if (!parts) {
      await advanceBuild(bench, build, 'errored', { failure_reason: 'suite_deleted' });
      return undefined;
    }
    const { missing, ...software } = await suiteSoftware(bench, parts.suite.id);
    if (missing.length > 0) {
      await addToLog(bench.db, bench.trx, build.id, missing.map(notCompiled).join(''));
      await advanceBuild(bench, build, 'errored', { failure_reason: 'dependency_not_compiled' });
      return undefined;
    }
    if (!(await advanceBuild(bench, build, 'running'))) return undefined;
    const { project, suite, commit, request } = parts;
    const variables = await variablesOf(bench, suite.id);
    return {
      kind: 'run_suite',
      source: sourceOf(bench, project),
      sha: commit.ref,
      command: suite.command,
      environment: {
        ...variables,
        CI: 'true',
        HEADRACE: 'true',
        HEADRACE_PROJECT_ID: String(project.id),
        HEADRACE_BUILD_ID: String(build.id),
        HEADRACE_SUITE: suite.name,
        HEADRACE_COMMIT: commit.ref,
        HEADRACE_REF: request.commit_ref,
        HEADRACE_BRANCH: request.branch,
      },
      secrets: Object.values(variables),
      limits: bench.limits,
      ...software,
    };
  },

  async settle(bench, job, outcome) {
    const build = await buildOf(bench, job.subject_id);
    if (build) await advanceBuild(bench, build, ...endingOf(outcome));
  },

  async lose(bench, job) {
    const build = await buildOf(bench, job.subject_id);
    if (build && job.cancelled) await advanceBuild(bench, build, 'cancelled');
    else if (build) await loseBuild(bench, build, job.account_id, job.tries);
    return { retry: false }; // the next attempt is a build and a job of its own
  },
};

type Ending = [state: BuildState, details: { exit_status?: number; failure_reason?: string }];

function endingOf(outcome: Outcome): Ending {
  switch (outcome.kind) {
    case 'exited':
      return [outcome.status === 0 ? 'passed' : 'failed', { exit_status: outcome.status }];
    case 'launch_failed':
      return ['errored', { failure_reason: 'launch_failed' }];
    case 'timed_out':
      return ['timed_out', { failure_reason: 'timed_out' }];
    case 'killed':
      return ['failed', { failure_reason: outcome.reason }];
    case 'cancelled':
      return ['cancelled', {}];
    case 'unfetchable':
      return ['errored', { failure_reason: outcome.reason }];
    case 'fetched':
    case 'compiled':
    case 'uncompilable':
    case 'lost':
      throw new Error(`a suite does not end as ${outcome.kind}`);
    default:
      return outcome satisfies never;
  }
}

function notCompiled(name: string): string {
  return `The dependency ${name} is not compiled, so this suite cannot run. Compile it, or detach it from the suite.\n`;
}

async function buildOf({ trx }: Bench, id: bigint): Promise<BuildRow | undefined> {
  return trx.selectFrom('builds').selectAll().where('id', '=', id).executeTakeFirst();
}

/** Everything an order is made of; undefined when the suite was deleted since. */
async function partsOf({ trx }: Bench, build: BuildRow) {
  const suite = await trx.selectFrom('suites').selectAll().where('id', '=', build.suite_id).executeTakeFirst();
  if (!suite) return undefined;
  const request = trx.selectFrom('build_requests').selectAll().where('id', '=', build.build_request_id);
  return {
    suite,
    project: await trx.selectFrom('projects').selectAll().where('id', '=', build.project_id).executeTakeFirstOrThrow(),
    commit: await trx.selectFrom('commits').select('ref').where('id', '=', build.commit_id).executeTakeFirstOrThrow(),
    request: await request.executeTakeFirstOrThrow(),
  };
}

async function variablesOf({ trx, vault }: Bench, suiteId: bigint): Promise<Record<string, string>> {
  const rows = await trx.selectFrom('environment_variables').selectAll().where('suite_id', '=', suiteId).execute();
  return Object.fromEntries(rows.map((row) => [row.name, vault.open(row.content, contentPlace(row.id))]));
}

const contentPlace = (id: bigint): string => sealedPlace({ table: 'environment_variables', column: 'content' }, id);
