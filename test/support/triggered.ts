import type { CallDeps } from '../../src/server/api/call.ts';
import type { Trigger } from '../../src/server/lifecycle/requests.ts';
import { triggerRequest, type Triggered } from '../../src/server/triggers/triggers.ts';

/** Starts a build as a hook would for a push to `main`, or with the changes of a test. */
export async function trigger(
  { db, ids, observers }: CallDeps,
  project: { id: bigint },
  commitRef: string,
  about: Partial<Trigger> = {},
): Promise<Triggered> {
  const told: Trigger = {
    source: 'hook:7',
    event: 'push',
    pullRequest: null,
    targetBranch: 'main',
    fromFork: false,
    sender: 'ada',
    fetchRef: 'refs/heads/main',
    group: 'branch:main',
    ...about,
  };
  return db.transaction(async (trx) => {
    const row = await trx.selectFrom('projects').selectAll().where('id', '=', project.id).executeTakeFirstOrThrow();
    return triggerRequest({ db, trx, ids, observers }, row, { commitRef, trigger: told });
  });
}

/** A hook's data for a pull request from a fork. */
export const fromFork: Partial<Trigger> = {
  event: 'pull_request',
  pullRequest: 7n,
  fromFork: true,
  sender: 'mallory',
  fetchRef: 'refs/pull/7/head',
  group: 'pull_request:7',
};
