import type { CheckInputsOrder } from '../shared/protocol/index.ts';
import { inputsHere, type AskedBuild } from './build-inputs.ts';
import type { JobRunner, RunnerDeps, Task } from './job-runner.ts';
import { withAccess } from './repository-access.ts';
import { failureBefore } from './run-suite.ts';

/** Pulls no image, and makes no work tree if the tree tells that it would be whole. It fails where the build would. */
export const checkInputs: JobRunner<CheckInputsOrder> = async (deps, order, { id, onInputs, signal }) => {
  const build = { ...order, source: withAccess(deps.link, order.source, { id, signal }) };
  try {
    const variables = deps.operatorVariables();
    const [misses, image, services] = await Promise.all([
      missesOf(deps, build, signal),
      order.image && deps.images.lookUp(order.image, { id, signal }),
      Promise.all(
        (order.services ?? []).map(async ({ name, image }) =>
          image ? [[name, await deps.images.lookUp(image, { id, service: name, signal })]] : [],
        ),
      ),
    ]);
    const serviceImages = Object.fromEntries(services.flat()) as Record<string, string>;
    const inputs = await inputsHere(deps, build, { misses, image, serviceImages, variables }, signal);
    onInputs?.(Promise.resolve(inputs));
    return { kind: 'inputs' };
  } catch (error) {
    return failureBefore(error).outcome;
  }
};

async function missesOf(
  { mirrors, checkouts }: RunnerDeps,
  { source, sha, fetchRef, merge, isFork, hasFiles }: AskedBuild,
  signal: Task['signal'],
): Promise<readonly string[]> {
  if (hasFiles) return [];
  const commit = { sha, ...(fetchRef !== undefined && { fetchRef }), ...(merge && { merge }), isFork: isFork ?? true };
  const sealed = { ...commit, isSealed: true };
  const misses = checkouts.missesIn(source.projectId, sealed);
  if (misses) return misses;
  if (!(await mirrors.mayLackParts({ ...source, ...commit, signal }))) return [];
  using checkout = await checkouts.of(source, sealed, () => {}, signal);
  return checkout.misses;
}
