import type { HookRow, ProjectRow } from '../db/schema.ts';
import type { Trigger } from '../lifecycle/requests.ts';
import { triggerRequest, type TriggerOutcome } from '../lifecycle/triggers.ts';
import type { WriteContext } from '../lifecycle/write-context.ts';
import { quoted, type Change, type Facts } from './facts.ts';
import { isAbout } from './repositories.ts';

export type Outcome = TriggerOutcome | 'skipped';

/** What came of one ref, and why. */
export interface Result {
  ref: string;
  sha: string;
  outcome: Outcome;
  reason: string;
  /** The request that was made, in decimal: JSON has no 64 bits. */
  request: string | null;
}

/** What came of a delivery as a whole: the first request that it led to stands for it. */
export interface Judgement {
  outcome: Outcome;
  reason: string;
  requestId: bigint | null;
  results: Result[];
}

/** What of a project decides. */
export type JudgedProject = Parameters<typeof triggerRequest>[1] & Pick<ProjectRow, 'repository_url'>;

/** Decides what is built of what a payload says, with the settings of this moment, and asks for it. */
export async function judge(
  context: WriteContext,
  hook: Pick<HookRow, 'id' | 'events'>,
  project: JudgedProject,
  facts: Facts,
): Promise<Judgement> {
  const reason = whyNothing(project, facts);
  if (reason !== '') return { outcome: 'ignored', reason, requestId: null, results: [] };
  const results: Result[] = [];
  for (const change of facts.changes) results.push(await judgeChange(context, hook, project, facts, change));
  const leading = results.find(({ request }) => request !== null) ?? results[0];
  if (!leading) return { outcome: 'ignored', reason: 'It moves no ref.', requestId: null, results };
  return {
    outcome: leading.outcome,
    reason: [leading.reason, inAll(results, facts.left)].filter(Boolean).join(' '),
    requestId: leading.request === null ? null : BigInt(leading.request),
    results,
  };
}

function whyNothing({ repository_url: url }: JudgedProject, { idle, repository }: Facts): string {
  if (idle !== '' || isAbout(url, repository)) return idle;
  const told = repository.addresses[0] ?? repository.names[0] ?? '';
  return `The repository ${quoted(told)} is not that of the project, ${quoted(url)}.`;
}

function inAll(results: readonly Result[], left: number): string {
  if (results.length + left < 2) return '';
  const built = results.filter(({ request }) => request !== null).length;
  const more = left === 0 ? '' : `; ${left} more were not looked at`;
  return `Of ${results.length} refs ${built} ${built === 1 ? 'has' : 'have'} a request${more}.`;
}

async function judgeChange(
  context: WriteContext,
  hook: Pick<HookRow, 'id' | 'events'>,
  project: JudgedProject,
  { sender }: Facts,
  change: Change,
): Promise<Result> {
  const { ref, sha } = change;
  if (!hook.events.split(',').includes(change.event)) {
    const reason = `The hook does not want the event ${change.event}, only ${hook.events.replaceAll(',', ', ')}.`;
    return { ref, sha, outcome: 'ignored', reason, request: null };
  }
  if (change.verdict) return { ref, sha, ...change.verdict, request: null };
  const asked = { commitRef: sha === '' ? ref : sha, trigger: triggerOf(hook.id, sender, change) };
  const { outcome, reason, request } = await triggerRequest(context, project, asked);
  return { ref, sha, outcome, reason, request: request === undefined ? null : String(request.id) };
}

function triggerOf(hookId: bigint, sender: string, change: Change): Trigger {
  const { event, pullRequest, targetBranch, fromFork } = change;
  const branch = event === 'push' && targetBranch !== '' ? `branch:${targetBranch}` : '';
  return {
    source: `hook:${hookId}`,
    event,
    pullRequest: pullRequest === null ? null : BigInt(pullRequest),
    targetBranch,
    fromFork,
    sender,
    fetchRef: change.sha === '' ? '' : change.ref,
    group: pullRequest === null ? branch : `pull_request:${pullRequest}`,
  };
}
