import { issueBuildToken } from '../auth/build-tokens.ts';
import { whyNoVariables, type BuildsVariables } from '../lifecycle/build-variables.ts';
import { idTokensIn } from '../lifecycle/id-tokens.ts';
import type { SuiteOrder } from '../../shared/protocol/index.ts';
import type { BuildVariables } from '../../shared/domain/build-variables.ts';
import type { Asker, JobContext } from './job-handler.ts';
import type { SuiteParts } from './suite-parts.ts';

interface Asking {
  asker: Asker;
  timeoutSeconds: number;
  deployStrategy: string | undefined;
}

/** The author of a fork's code would get the rights of the project. */
export async function credentialsOrder(
  context: JobContext,
  build: SuiteParts,
  asking: Asking,
): Promise<Pick<SuiteOrder, 'tokens' | 'api'>> {
  if (build.from_fork === 1) return {};
  const identities = await identityTokens(context, build, asking);
  const right = apiTokenOf(build);
  if (right === 'none') return identities ? { tokens: identities } : {};
  const token = await issueBuildToken(context.trx, build.id, right === 'write');
  return {
    tokens: { ...identities, ...({ HEADRACE_TOKEN: token } satisfies BuildVariables) },
    api: context.api(),
  };
}

/** Signed when a runner takes the build, so their time begins with it. */
async function identityTokens(
  { trx, identity }: JobContext,
  build: SuiteParts,
  { asker, timeoutSeconds, deployStrategy = '' }: Asking,
): Promise<Record<string, string> | undefined> {
  const wanted = idTokensIn(build);
  if (wanted.length === 0) return undefined;
  const startedAt = Number(build.started_at ?? Date.now());
  return identity.issue(trx, wanted, { build, deployStrategy, runnerId: asker.id, startedAt, timeoutSeconds });
}

const rights = ['none', 'read', 'write'] as const;
type Right = (typeof rights)[number];

/** Anyone who can push can write a branch's file, so it cannot give more than the project's suite of that name has. */
function apiTokenOf({
  api_token: own,
  project_api_token: ofProject,
  config_digest: file,
  branch_secrets: trusted,
}: SuiteParts): Right {
  if (file === '' || trusted === 1) return own;
  return rights[Math.min(rights.indexOf(own), rights.indexOf(ofProject ?? 'none'))] ?? 'none';
}

/** The credentials that a build lacks, for its log. */
export function withheldCredentials(build: SuiteParts): BuildsVariables['withheld'] {
  const reason = whyNoVariables(build);
  if (reason === undefined) return [];
  const identities = reason === 'fork' ? idTokensIn(build).map(({ variable }) => variable) : [];
  const lacksToken = build.api_token !== 'none' && (reason === 'fork' || apiTokenOf(build) === 'none');
  const names = [...identities, ...(lacksToken ? ['HEADRACE_TOKEN'] : [])];
  return names.map((name) => ({ name, refs: [], reason }));
}
