import type { HookRow, ProjectRow } from '../db/schema.ts';
import type { Trigger } from '../lifecycle/requests.ts';
import { triggerRequests, type Triggered, type TriggerOutcome } from '../triggers/triggers.ts';
import type { WriteContext } from '../lifecycle/write-context.ts';
import { quoted, type Change, type Facts } from './facts.ts';
import { isAbout } from './repositories.ts';

export type Outcome = TriggerOutcome | 'skipped';

export interface Result {
  ref: string;
  sha: string;
  outcome: Outcome;
  reason: string;
  /** The new request, in decimal: JSON has no 64-bit integers. */
  request: string | null;
}

export interface Decision {
  outcome: Outcome;
  reason: string;
  requestId: bigint | null;
  results: Result[];
}

export type DecidingProject = Parameters<typeof triggerRequests>[1] & Pick<ProjectRow, 'clone_url'>;

/** Decides with the current settings, and starts the builds. */
export async function decide(
  context: WriteContext,
  hook: Pick<HookRow, 'id' | 'events'>,
  project: DecidingProject,
  facts: Facts,
): Promise<Decision> {
  const reason = whyNothing(project, facts);
  if (reason !== '') return { outcome: 'ignored', reason, requestId: null, results: [] };
  const results = await decideChanges(context, hook, project, facts);
  const leading = results.find(({ request }) => request !== null) ?? results[0];
  if (!leading) return { outcome: 'ignored', reason: 'It moves no ref.', requestId: null, results };
  return {
    outcome: leading.outcome,
    reason: [leading.reason, inAll(results, facts.unread)].filter(Boolean).join(' '),
    requestId: leading.request === null ? null : BigInt(leading.request),
    results,
  };
}

function whyNothing({ clone_url: url }: DecidingProject, { idle, repository }: Facts): string {
  if (idle !== '' || isAbout(url, repository)) return idle;
  const named = repository.addresses[0] ?? repository.names[0] ?? '';
  return `The repository ${quoted(named)} is not the project’s repository, ${quoted(url)}.`;
}

function inAll(results: readonly Result[], unread: number): string {
  if (results.length + unread < 2) return '';
  const built = results.filter(({ request }) => request !== null).length;
  const more = unread === 0 ? '' : `; ${unread} more were skipped`;
  return `Of ${results.length} refs ${built} ${built === 1 ? 'has' : 'have'} a request${more}.`;
}

async function decideChanges(
  context: WriteContext,
  hook: Pick<HookRow, 'id' | 'events'>,
  project: DecidingProject,
  { sender, changes }: Facts,
): Promise<Result[]> {
  const wanted = changes.filter((change) => verdictOn(hook, change) === undefined);
  const asked = wanted.map((change) => ({
    commitRef: change.sha === '' ? change.ref : change.sha,
    trigger: triggerOf(hook.id, sender, change),
  }));
  const triggered = await triggerRequests(context, project, asked);
  const byChange = new Map(wanted.map((change, at) => [change, triggered[at]]));
  return changes.map((change) => {
    const { ref, sha } = change;
    const decided: Omit<Triggered, 'outcome'> & { outcome: Outcome } =
      byChange.get(change) ?? verdictOn(hook, change) ?? ignored;
    const { outcome, reason, request } = decided;
    return { ref, sha, outcome, reason, request: request === undefined ? null : String(request.id) };
  });
}

const ignored = { outcome: 'ignored', reason: '' } as const;

/** Checked before the project's settings. Undefined if nothing prevents a build. */
function verdictOn({ events }: Pick<HookRow, 'events'>, change: Change): Change['verdict'] {
  if (events.split(',').includes(change.event)) return change.verdict;
  const reason = `The hook ignores the event ${change.event}. It accepts only ${events.replaceAll(',', ', ')}.`;
  return { outcome: 'ignored', reason };
}

function triggerOf(hookId: bigint, sender: string, change: Change): Trigger {
  const { event, pullRequest, targetBranch, fromFork, before, headBranch } = change;
  const branch = event === 'push' && targetBranch !== '' ? `branch:${targetBranch}` : '';
  return {
    source: `hook:${hookId}`,
    event,
    pullRequest: pullRequest === null ? null : BigInt(pullRequest),
    targetBranch,
    fromFork,
    sender,
    before,
    headBranch,
    fetchRef: change.sha === '' ? '' : change.ref,
    group: pullRequest === null ? branch : `pull_request:${pullRequest}`,
  };
}
