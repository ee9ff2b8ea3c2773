import type { BuildRow } from '../db/schema.ts';
import { holdWithFirst } from './apply-rollup.ts';
import { addBuilds, triedBefore } from './builds.ts';
import { holdAgain } from './held-back.ts';
import { rollUp } from './pending-effects.ts';
import type { WriteContext } from './write-context.ts';

/**
 * The suite's files are gone, so it reruns unless another build already caused that. False if the suite was deleted.
 */
export async function needAgain(
  context: WriteContext,
  build: BuildRow,
  { accountId, gone }: { accountId: bigint; gone: BuildRow | undefined },
): Promise<boolean> {
  const { project_id: projectId, commit_id: commitId, build_request_id: requestId } = build;
  await holdWithFirst(context, requestId, commitId);
  if (gone) {
    const next = (await triedBefore(context, { commitId, requestId: gone.build_request_id }, [gone])).filter(
      ({ last }) => last === gone.attempt,
    );
    if (next.some(({ isDeleted }) => isDeleted)) return false;
    const { build_request_id: leaving } = gone; // perhaps the request that its own request joined
    await addBuilds(context, { projectId, accountId, commitId, requestId: leaving, askedBy: build.asked_by }, next);
    rollUp(context, { request: leaving });
  }
  await holdAgain(context, build.id, gone?.id);
  rollUp(context, { commit: commitId, request: requestId });
  return true;
}
