import type { PushOrder } from '../shared/protocol/index.ts';
import type { JobRunner } from './job-runner.ts';

/** If the remote refuses the push, that is an outcome. The log has its message and advice. */
export const pushDeploy: JobRunner<PushOrder> = async ({ mirrors }, order, { writeLog, signal }) => {
  const { source, sha, localBranch, remoteUrl, remoteBranch, timeoutSeconds } = order;
  const tooLong = AbortSignal.timeout(timeoutSeconds * 1000);
  const target = { sha, localBranch, remoteUrl, remoteBranch };
  try {
    const outcome = await mirrors.push({
      ...source,
      ...target,
      writeLog,
      signal: AbortSignal.any([signal, tooLong]),
    });
    return { kind: outcome.pushed ? 'pushed' : 'refused' };
  } catch (error) {
    if (!signal.aborted && !tooLong.aborted) throw error;
    const why = signal.aborted ? 'The deploy was cancelled.' : `The deploy took longer than ${timeoutSeconds} s.`;
    await writeLog(`\n${why} A push was interrupted: check the remote branch to see whether it arrived.\n`);
    if (signal.aborted) throw error;
    return { kind: 'refused' };
  }
};
