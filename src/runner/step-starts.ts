import { createHash } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { messageOf } from '../shared/lib/error-code.ts';
import type { BuildVariables } from '../shared/domain/build-variables.ts';
import type { SuiteOrder } from '../shared/protocol/index.ts';
import type { RunnerDeps } from './job-runner.ts';
import type { StartedFrom } from './kept-builds.ts';
import type { Start, Wanted } from './start.ts';
import { startAtPoint } from './step-points.ts';
import { layersOf, type Holding } from './suite-files.ts';

/**
 * A build may start from a later step, with the files and added variables that the steps before it left in an earlier
 * build. Its own files then lie over the layers of that build (sandbox/stages.ts), which stay as long as they do.
 */
/** These differ between builds that are alike. */
const ofOneBuild = new Set(['TRACEPARENT', 'HEADRACE_BUILD_ID', 'HEADRACE_ATTEMPT'] satisfies (
  | 'TRACEPARENT'
  | keyof BuildVariables
)[] as string[]);

/** Two builds with the same digest differ at most in their steps and services. */
export function basisOf(order: SuiteOrder, imageDigest: string | undefined, operators: Record<string, string>): string {
  const { source, sha, isFork = true, isSealed, root, software, prefixes, launches, files, lent, environment } = order;
  const variables = [environment, operators].map((all) =>
    Object.entries(all)
      .filter(([name]) => !ofOneBuild.has(name))
      .toSorted(([a], [b]) => (a < b ? -1 : 1)),
  );
  const others = [files?.build, lent?.map(({ build }) => build)];
  const all = [
    source.projectId,
    sha,
    isFork,
    isSealed,
    imageDigest,
    root,
    software,
    prefixes,
    launches,
    others,
    variables,
  ];
  return createHash('sha256')
    .update(JSON.stringify(all, (_, value: unknown) => value ?? null))
    .digest('hex');
}

interface Found {
  /** Undefined if the build starts at its first step. */
  start?: Start;
  /** For the log. */
  words: string;
}

const beginning = (why: string): Found => ({ words: `This starts at the first step: ${why}.\n` });

export async function findStart(
  deps: RunnerDeps,
  { from, ...order }: SuiteOrder,
  basis: string,
  holding: Holding,
): Promise<Found | undefined> {
  if (!from) return undefined;
  const { step, build } = from;
  const at = order.steps.findIndex(({ name }) => name === step);
  const changed = beginning(`the steps before ${step}, the image or the variables are not what they were`);
  if (at === -1) return changed;
  try {
    const wanted = { at, basis, order };
    const start = from.point
      ? await startAtPoint(deps, from.point, wanted, holding)
      : from.kept && (await startIn(deps, from.kept, wanted, holding));
    if (start === 'changed') return changed;
    if (!start) return beginning(`the files that the steps before ${step} left in build ${build} are not stored`);
    return { start, words: `This starts at the step ${step}, with the files and variables of build ${build}.\n` };
  } catch (error) {
    holding.signal.throwIfAborted();
    deps.log(`a build cannot start from a later step: ${messageOf(error)}`);
    return beginning(`the files that the steps before ${step} left in build ${build} cannot be used`);
  }
}

async function startIn(
  deps: RunnerDeps,
  { name, key }: Omit<StartedFrom, 'stages'>,
  wanted: Wanted,
  holding: Holding,
  how?: 'below',
): Promise<Start | 'changed' | undefined> {
  const { at, basis, order } = wanted;
  const build = await deps.kept?.open(name, key, how);
  if (!build) return undefined;
  holding.held.use(build);
  if (build.basis === undefined) return undefined;
  const before = (steps: SuiteOrder['steps']): SuiteOrder['steps'] => steps.slice(0, at);
  if (build.basis !== basis || !isDeepStrictEqual(before(build.order.steps), before(order.steps))) return 'changed';
  const { from, startedAt = 0 } = build;
  if (from && at <= startedAt) return startIn(deps, from, wanted, holding, 'below');
  const end = build.ends?.find(({ first, last }) => first <= at && at <= last);
  if (!end) return undefined;
  const { added, hidden, stages } = end;
  const layers = await layersOf(deps, build, holding, stages);
  return { at, layers, added, hidden, cache: build.cache, from: { name, key, stages } };
}
