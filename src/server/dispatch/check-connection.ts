import { suspect } from '../lifecycle/forge-holds.ts';
import { longestCheckMs, settleCheck } from '../triggers/connection-checks.ts';
import type { Source } from '../../shared/protocol/index.ts';
import { parseGitAddress } from '../../shared/domain/git-address.ts';
import type { JobContext, JobHandler } from './job-handler.ts';
import { sourceOf } from './sources.ts';

/** Time for the response to return from the runner. */
const wayBackMs = 1000;

export const checkConnection: JobHandler = {
  async order(context, job) {
    const check = await openCheck(context, job.subject_id);
    const left = check ? Number(check.created_at) + longestCheckMs - wayBackMs - Date.now() : 0;
    if (!check || left <= 0) return undefined; // the user has stopped waiting
    const source = await sourceOf(context.trx, context.vault, check);
    return { kind: 'check_connection', source, timeoutMs: Math.min(left, longestCheckMs) };
  },

  outcomes: ['checked', 'unfetchable', 'cancelled'],

  async settle(context, job, outcome) {
    if (outcome.kind === 'checked') {
      const { defaultBranch, branches, files, workflows = [] } = outcome;
      const check = await openCheck(context, job.subject_id);
      if (!check) return;
      const way = wayIn(await sourceOf(context.trx, context.vault, check));
      await settleCheck(context, job.subject_id, {
        connected: true,
        message: `Connected. ${branches.length === 0 ? 'The repository is empty: push a commit, and it can be built.' : way}`,
        default_branch: defaultBranch,
        branches,
        files,
        workflows,
      });
    } else if (outcome.kind === 'unfetchable') {
      const check = await openCheck(context, job.subject_id);
      if (check) await suspect(context, check.id);
      await settleCheck(context, job.subject_id, failed(outcome.message ?? outcome.reason.replaceAll('_', ' ')));
    } else {
      await settleCheck(context, job.subject_id, failed('The connection check was aborted. Try again.'));
    }
  },

  async lose(context, job) {
    const message = 'The runner failed to check the connection. Try again later.';
    await settleCheck(context, job.subject_id, failed(message));
    return { retry: false };
  },
};

async function openCheck({ trx }: Pick<JobContext, 'trx'>, id: bigint) {
  return trx
    .selectFrom('connection_checks as c')
    .innerJoin('projects as p', 'p.id', 'c.project_id')
    .select(['p.id', 'p.clone_url', 'p.ssh_private_key', 'p.forge_id', 'p.forge_git_origin', 'c.created_at'])
    .where('c.id', '=', id)
    .where('c.answer', 'is', null)
    .executeTakeFirst();
}

function wayIn({ repositoryUrl, credential }: Source): string {
  if (credential) return 'The forge’s token can read the repository.';
  return parseGitAddress(repositoryUrl)?.scheme === 'https'
    ? 'The repository is public over HTTPS, so no key is needed.'
    : 'The project’s key can read the repository.';
}

function failed(message: string) {
  return { connected: false, message, default_branch: null, branches: [], files: [] };
}
