import assert from 'node:assert/strict';
import { setTimeout as pause } from 'node:timers/promises';
import type { SuiteOrder } from '../../src/shared/protocol/index.ts';
import type { Record_ } from './client.ts';
import type { ScriptedRunner, Task } from './runner.ts';
import type { User } from './user.ts';

export interface RunningBuild {
  project: Record_;
  request: Record_;
  id: bigint;
  /** The path of the build in the API. */
  path: string;
  task: Task<SuiteOrder>;
}

/** A project with one suite, whose build a runner has just begun. */
export async function runningBuild(
  user: User,
  runner: ScriptedRunner,
  suite: Record<string, string> = {},
): Promise<RunningBuild> {
  const project = await user.createProject();
  await user.createSuite(project, suite);
  const request = await user.requestBuild(project);
  await (await runner.take('fetch_commit')).fetched();
  const task = await runner.take('run_suite');
  const id = BigInt(task.order.work.environment.HEADRACE_BUILD_ID ?? assert.fail('the build has no identifier'));
  return { project, request, id, path: `/projects/${project.id}/builds/${id}`, task };
}

/** Keeps a build running during a test, and ends it afterwards. Without that its claim lapses on a slow machine. */
export function held({ task }: { task: Task }, runner: ScriptedRunner): AsyncDisposable {
  const stop = new AbortController();
  const { signal } = stop;
  const { claim } = task.order;
  const holding = (async () => {
    while (!signal.aborted) {
      const heard = await runner.dispatch.extend(runner.self, { claims: [claim] }, signal);
      // What is cancelled or over is told again at once.
      if (claim in heard) await pause(1000, undefined, { signal }).catch(() => {});
    }
  })();
  return {
    async [Symbol.asyncDispose]() {
      stop.abort();
      await holding;
      await task.finish({ kind: 'exited', status: 0 });
    },
  };
}
