import { digestFor, vouchesFor, type Origin, type VouchesFor } from '../lifecycle/reuse.ts';
import { noteReportedInputs, reportedInputs } from '../lifecycle/build-inputs.ts';
import { settingsOf, type SuiteSettings } from '../lifecycle/file-suites.ts';
import { idTokensIn } from '../lifecycle/id-tokens.ts';
import type { BuildInput } from '../../shared/domain/build-inputs.ts';
import type { RunnerInput } from '../../shared/protocol/index.ts';
import type { JobContext } from './job-handler.ts';
import type { SuiteParts } from './suite-parts.ts';

/** The build sees nothing that is not among its inputs. A deploy is never reused, and may need more. */
export const isUnderReuse = (build: Pick<SuiteParts, 'reuse' | 'reuse_stopped' | 'deploy_id'>): boolean =>
  build.reuse === 'on' && !build.reuse_stopped && build.deploy_id === null;

/** With a credential of its own, a build may do what another build's result does not stand for. */
export const isReusable = (build: SuiteParts): boolean =>
  isUnderReuse(build) && build.api_token === 'none' && idTokensIn(build).length === 0;

/** Blank if the runner lacks what the server left to it. */
export function reportedDigest(
  suite: Pick<SuiteSettings, 'inputs' | 'ignore_variables'>,
  inputs: readonly BuildInput[],
): string {
  const hasFiles = inputs.some(({ kind, name }) => kind === 'tree' && name === 'matching files');
  return suite.inputs !== '[]' && !hasFiles ? '' : digestFor(suite, inputs);
}

/** For a build that begins. `isOwn` as in `vouchesFor`. */
export function digestsAtStart(
  build: SuiteParts,
  inputs: readonly BuildInput[],
  about: { origin: Origin; isOwn: boolean },
): { ordered_key: string; vouches_for: VouchesFor } | undefined {
  if (!isReusable(build)) return undefined;
  const isWhole = build.counts === 1 && build.from_build === null;
  return {
    ordered_key: digestFor(build, inputs),
    vouches_for: isWhole ? vouchesFor(about.origin, about.isOwn) : '',
  };
}

export async function noteReported(
  { trx, vault }: JobContext,
  id: bigint,
  told: readonly RunnerInput[],
): Promise<void> {
  const build = await trx
    .selectFrom('builds')
    .leftJoin('build_inputs', 'build_inputs.id', 'builds.id')
    .selectAll('builds')
    .select('build_inputs.ordered_key')
    .where('builds.id', '=', id)
    .executeTakeFirst();
  if (!build) return;
  const inputs = reportedInputs(vault, build.project_id, told);
  const suite = build.ordered_key ? await settingsOf(trx, build) : undefined;
  await noteReportedInputs(trx, id, inputs, { reported_key: suite ? reportedDigest(suite, inputs) : '' });
}
