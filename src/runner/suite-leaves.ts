import { messageOf } from '../shared/lib/error-code.ts';
import type { SuiteOrder } from '../shared/protocol/index.ts';
import type { RunnerDeps, Task } from './job-runner.ts';
import { keepSummary } from './keep-summary.ts';
import { keepArtifacts } from './keep-artifacts.ts';
import type { BuildFacts } from './kept-builds.ts';
import { refusedText } from './refused-addresses.ts';
import { collectReports } from './reports/collect-reports.ts';
import type { Ended, RunFiles } from './sandbox/types.ts';
import type { Ground } from './suite-ground.ts';

/** Registry passwords are never stored on a disk, not even encrypted. */
const withoutPasswords = { registries: [] };

interface Leaving extends Pick<Task, 'id' | 'signal' | 'spans'> {
  onKept: Task['onKept'] | undefined;
  ground: Ground;
  /** The values to mask in reports. */
  secrets: () => readonly string[];
  print: (text: string) => Promise<void>;
  /** Whether all launch commands passed. */
  isLaunched: boolean;
  /** The build's environment, including the variables that its steps added. */
  environment: Record<string, string>;
  ends: NonNullable<BuildFacts['ends']>;
  services: Pick<BuildFacts, 'serviceImages' | 'serviceData'>;
}

/** After a build's processes have ended, takes its reports, its summary, its artifacts, its cache, and its files for a shell. */
export async function takeLeft(
  deps: RunnerDeps,
  order: SuiteOrder,
  [left, ended]: [RunFiles, Ended],
  { id, signal, spans, onKept, ground, secrets, print, isLaunched, environment, ends, services }: Leaving,
): Promise<void> {
  const { cache, image, user, waiting, start } = ground;
  if (order.reports && ended.reason !== 'cancelled' && ended.reason !== 'out_of_disk') {
    spans.begin('reports');
    const told = { claim: id, tell: print, signal };
    await collectReports(left, { globs: order.reports, secrets: secrets(), link: deps.link, ...told });
    spans.end();
  }
  if (ended.reason !== 'cancelled')
    await keepSummary(left, { link: deps.link, secrets: secrets(), claim: id, print, signal });
  if (order.artifacts && ended.reason !== 'cancelled') {
    spans.begin('artifacts');
    if (ended.reason === 'out_of_disk') await print('\nNo artifacts are stored: the disk must be freed at once.\n');
    else await keepArtifacts(deps, left, order.artifacts, { claim: id, waiting, print, signal });
    spans.end();
  }
  await cache?.take(left, ended, isLaunched);
  await print(refusedText(ended.refused));
  // This comes last, because it moves the files away.
  const { tokens: _tokens, api: _api, from: _from, ...retained } = order;
  const facts: BuildFacts = {
    order: { ...retained, environment, ...(order.imageBuilds && { imageBuilds: withoutPasswords }) },
    imageDigest: image?.digest,
    ...services,
    // The files of an earlier build are over its cache already.
    cache: start || cache?.tree === undefined ? undefined : order.cache?.found,
    stages: left.stages,
    ends,
    ...(order.steps.length > 1 && { basis: await ground.basis() }),
    from: start?.from,
    startedAt: start?.at,
    wentOn: start?.wentOn,
    hasOneOwner: user?.uid !== 0 || !deps.sandboxes.hasManyUsers,
  };
  await keepFiles(deps, left, ended, facts, { print, onKept });
}

/** A cancelled run did not fail. After `out_of_disk` the files must be removed, so it does not count either. */
function hasFailed({ exitStatus, reason }: Ended): boolean {
  return reason === null ? exitStatus !== 0 : reason === 'timed_out' || reason === 'out_of_memory';
}

/** Retains a failed build's files for a shell, and files for other suites. An error does not change the result. */
async function keepFiles(
  { kept, sandboxes, isSoonGone = false, log }: RunnerDeps,
  left: RunFiles,
  ended: Ended,
  build: BuildFacts,
  { print, onKept }: { print: (text: string) => Promise<void>; onKept: Task['onKept'] | undefined },
): Promise<void> {
  const { keep } = build.order;
  const isFailed = hasFailed(ended);
  if (!keep || (!isFailed && (ended.reason !== null || ended.exitStatus !== 0))) return;
  const { forSuites: when, accountId } = keep;
  const hours = isFailed && !isSoonGone ? keep.hours : 0;
  const forSuites = when !== undefined && (when === 'always' || !isFailed);
  if (!forSuites && hours === 0) return;
  try {
    if (!kept || !sandboxes.hasLayers) throw new Error('this runner cannot make overlays');
    const files = await kept.retain(left, build, { hours, accountId, ...(forSuites && { forSuites: when }) });
    onKept?.({ ...files, ...(isSoonGone && { isLeaving: true }) });
  } catch (error) {
    log(`the files of a build are not stored: ${messageOf(error)}`);
    if (forSuites) await print('\nThe files are not stored for other suites: the runner could not store them.\n');
  }
}
