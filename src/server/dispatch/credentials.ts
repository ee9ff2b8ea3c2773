import { idTokensIn } from '../lifecycle/id-tokens.ts';
import type { SuiteOrder } from '../../shared/protocol/index.ts';
import type { Asker, JobContext } from './job-handler.ts';
import type { SuiteParts } from './suite-parts.ts';

interface Asking {
  build: Pick<
    SuiteParts,
    | 'id'
    | 'project_id'
    | 'build_request_id'
    | 'suite_name'
    | 'event'
    | 'pull_request'
    | 'fetched_as'
    | 'from_fork'
    | 'sha'
    | 'started_at'
  >;
  idTokens: string;
  timeoutSeconds: number;
  deploying: { HEADRACE_DEPLOY_STRATEGY?: string };
}

/**
 * Signed when a runner takes the build, so their time begins with it. The author of a fork's code would get the rights
 * of the project.
 */
export async function tokensOrder(
  { trx, identity }: JobContext,
  asker: Asker,
  { build, idTokens, timeoutSeconds, deploying }: Asking,
): Promise<Pick<SuiteOrder, 'tokens'>> {
  const wanted = idTokensIn({ id_tokens: idTokens });
  if (wanted.length === 0 || build.from_fork === 1) return {};
  const tokens = await identity.issue(trx, wanted, {
    build,
    deployStrategy: deploying.HEADRACE_DEPLOY_STRATEGY ?? '',
    runnerId: asker.id,
    startedAt: Number(build.started_at ?? Date.now()),
    timeoutSeconds,
  });
  return { tokens };
}
