import type { HookRow, ProjectRow } from '../db/schema.ts';
import { noteMoves } from '../lifecycle/merges.ts';
import type { Trigger } from '../lifecycle/requests.ts';
import { triggerRequests, type Triggered, type TriggerOutcome } from '../triggers/triggers.ts';
import { commandRate } from '../../shared/domain/bounds.ts';
import { firstIdAt } from '../../shared/lib/ids.ts';
import { commandDeed } from '../lifecycle/forge-deeds.ts';
import { tellForge } from '../lifecycle/pending-effects.ts';
import type { WriteContext } from '../lifecycle/write-context.ts';
import { quoted, type Change, type CommentFacts, type Facts } from './facts.ts';
import { isAbout } from './repositories.ts';

export type Outcome = TriggerOutcome | 'skipped' | 'command';

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

export type DecidingProject = Parameters<typeof triggerRequests>[1] &
  Pick<ProjectRow, 'clone_url' | 'comment_commands' | 'forge_id'>;
type DecidingHook = Pick<HookRow, 'id' | 'events' | 'forge_url'>;

/** Decides with the current settings, and starts the builds. */
export async function decide(
  context: WriteContext,
  hook: DecidingHook,
  project: DecidingProject,
  facts: Facts,
): Promise<Decision> {
  const reason = whyNothing(project, facts);
  if (reason !== '') return { ...nothing, reason };
  if (facts.comment) return decideComment(context, hook, project, facts.comment);
  const results = await decideChanges(context, hook, project, facts);
  const leading = results.find(({ request }) => request !== null) ?? results[0];
  if (!leading) return { ...nothing, reason: 'It moves no ref.', results };
  return {
    outcome: leading.outcome,
    reason: [leading.reason, inAll(results, facts.unread)].filter(Boolean).join(' '),
    requestId: leading.request === null ? null : BigInt(leading.request),
    results,
  };
}

const nothing: Decision = { outcome: 'ignored', reason: '', requestId: null, results: [] };

/** The forge is asked later whether the author may give the command. */
async function decideComment(
  context: WriteContext,
  hook: DecidingHook,
  project: DecidingProject,
  comment: CommentFacts,
): Promise<Decision> {
  const reason = await whyNoCommand(context, hook, project, comment);
  if (reason !== '') return { ...nothing, reason };
  const { id, pullRequest, author, command } = comment;
  tellForge(context, project.id, commandDeed({ pull: String(pullRequest), comment: id, author, command }));
  return { ...nothing, outcome: 'command' };
}

async function whyNoCommand(
  { trx }: WriteContext,
  { id, events, forge_url: url }: DecidingHook,
  project: DecidingProject,
  { author }: CommentFacts,
): Promise<string> {
  if (!events.split(',').includes('comment')) return `The hook ignores the event comment.`;
  if (project.comment_commands === 0) return 'comment_commands of the project is false.';
  if (project.forge_id === null || url === '')
    return 'Commands need a connected forge, and arrive by the hook of that connection.';
  const recent = trx.selectFrom('hook_deliveries').select('facts').where('hook_id', '=', id);
  const rows = await recent
    .where('id', '>', firstIdAt(Date.now() - commandRate.perMs))
    .where('outcome', '=', 'command' satisfies Outcome)
    .limit(commandRate.most)
    .execute();
  const own = rows.filter(({ facts }) => (JSON.parse(facts) as Facts).comment?.author.id === author.id);
  if (rows.length < commandRate.most && own.length < commandRate.mostOfOne) return '';
  return `In one minute, a project takes ${commandRate.most} commands, and ${commandRate.mostOfOne} of one author.`;
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
  const moves = changes.filter(({ event, sha, targetBranch }) => event === 'push' && sha !== '' && targetBranch !== '');
  await noteMoves(
    context.trx,
    project.id,
    moves.map(({ targetBranch: branch, sha }) => ({ branch, sha })),
  );
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
