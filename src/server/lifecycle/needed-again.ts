import type { BuildRow } from '../db/schema.ts';
import { holdWithFirst } from './apply-rollup.ts';
import { addBuilds, triedBefore, type PlannedBuild } from './builds.ts';
import { holdAgain, type FilesOf } from './held-back.ts';
import { rollUp } from './pending-effects.ts';
import type { WriteContext } from './write-context.ts';

/**
 * Suites whose files are gone rerun, unless another build already caused that. False if one of them was deleted. `held`
 * notes the builds that had produced the files.
 */
export async function needAgain(
  context: WriteContext,
  build: BuildRow,
  { accountId, gone, held }: { accountId: bigint; gone: readonly BuildRow[]; held: FilesOf },
): Promise<boolean> {
  const { project_id: projectId, commit_id: commitId, build_request_id: requestId } = build;
  await holdWithFirst(context, requestId, commitId);
  const rerun: [request: bigint, next: PlannedBuild[]][] = [];
  for (const one of gone) {
    const { build_request_id: leaving } = one; // perhaps the request that its own request joined
    const next = await triedBefore(context, { commitId, requestId: leaving }, [one]);
    rerun.push([leaving, next.filter(({ last }) => last === one.attempt)]);
  }
  if (rerun.some(([, next]) => next.some(({ isDeleted }) => isDeleted))) return false;
  for (const [leaving, next] of rerun) {
    await addBuilds(context, { projectId, accountId, commitId, requestId: leaving, askedBy: build.asked_by }, next);
    rollUp(context, { request: leaving });
  }
  await holdAgain(context, build.id, held);
  rollUp(context, { commit: commitId, request: requestId });
  return true;
}
