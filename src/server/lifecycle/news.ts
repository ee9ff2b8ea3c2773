import type { Transaction } from '../db/open.ts';
import type { BuildRequestRow, NotificationRow } from '../db/schema.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import { globs } from '../../shared/records/forms.ts';
import { wantedBy } from '../../shared/records/notification.ts';
import { wholeMatcher } from '../../shared/domain/globs.ts';
import { usersOfProject } from './project-users.ts';
import type { LifecycleEvent } from './write-context.ts';

/**
 * Notifications that choose among the events of a project: by branch, and by outcome. The caller has locked the
 * project's row, so the known outcomes change in the order in which transactions commit.
 */
interface WriteContext {
  trx: Transaction;
  ids: IdSource;
}

type Choosing = Pick<NotificationRow, 'id' | 'project_id' | 'name' | 'on' | 'branches'>;
type Outcome = 'passed' | 'failed';

/** What a message is made of when it is sent (outbound-webhooks/message.ts). */
export interface NewsReport {
  build_request_id: string;
  state: string;
  /** The outcome that the receiver was told before. Blank if none. */
  before: Outcome | '';
  /** For e-mail. */
  to?: string;
}

export interface Chosen {
  notification: Choosing;
  events: { event: LifecycleEvent; reports: NewsReport[] }[];
}

/** All events without a choice go to webhooks in one statement (webhook-events.ts). */
export const choosesNothing = { name: 'webhook', on: ['', 'all'], branches: '[]' } as const;

export async function choose(
  context: WriteContext,
  projectId: bigint,
  events: readonly LifecycleEvent[],
): Promise<Chosen[]> {
  const { trx } = context;
  const choosing = await trx
    .selectFrom('notifications')
    .select(['id', 'project_id', 'name', 'on', 'branches'])
    .where('project_id', '=', projectId)
    .where('notifiable_type', '=', 'build')
    .where((of) =>
      of.or([
        of('name', '!=', choosesNothing.name),
        of('on', 'not in', choosesNothing.on),
        of('branches', '!=', choosesNothing.branches),
      ]),
    )
    .orderBy('id')
    .execute();
  if (choosing.length === 0) return [];
  const projects = trx.selectFrom('projects').select('default_branch').where('id', '=', projectId);
  const { default_branch: defaultBranch } = await projects.executeTakeFirstOrThrow();
  const placed: Placed[] = [];
  for (const event of events) placed.push(...(await placeOf(trx, event)));
  const chosen: Chosen[] = [];
  for (const notification of choosing) {
    const own: Chosen['events'] = [];
    for (const one of placed) {
      const before = await isWanted(context, notification, one, defaultBranch ?? '');
      if (before === undefined) continue;
      own.push({ event: one.event, reports: await reportsFor(trx, notification, one, before) });
    }
    chosen.push({ notification, events: own });
  }
  return chosen;
}

interface Placed {
  event: LifecycleEvent;
  request: Request;
  branch: string;
  /** The branch and what was built of it. Outcomes of one subject are compared with each other. */
  subject: string;
  outcome: Outcome | undefined;
}

const requestColumns = [
  'build_requests.id',
  'build_requests.commit_id',
  'build_requests.commit_ref',
  'build_requests.branch',
  'build_requests.fetched_as',
  'build_requests.pull_request',
  'build_requests.suites',
  'build_requests.deploy_id',
] as const;
type Request = Pick<
  BuildRequestRow,
  'id' | 'commit_id' | 'commit_ref' | 'branch' | 'fetched_as' | 'pull_request' | 'suites' | 'deploy_id'
>;

async function placeOf(trx: Transaction, event: LifecycleEvent): Promise<Placed[]> {
  const { type, subjectId: id } = event;
  const requests = trx.selectFrom('build_requests').select(requestColumns);
  let what: string = type;
  let request: Request | undefined;
  if (type === 'build_request') request = await requests.where('build_requests.id', '=', id).executeTakeFirst();
  if (type === 'commit')
    request = await requests
      .where('commit_id', '=', id)
      .orderBy('build_requests.id', 'desc')
      .limit(1)
      .executeTakeFirst();
  if (type === 'build') {
    const ofBuild = requests
      .innerJoin('builds', 'builds.build_request_id', 'build_requests.id')
      .where('builds.id', '=', id);
    const found = await ofBuild.select(['builds.suite_name', 'builds.variant']).executeTakeFirst();
    if (found) what = `build ${found.suite_name} ${found.variant}`;
    request = found;
  }
  if (!request) return [];
  const branch = branchOf(request);
  const ref = branch || request.fetched_as || request.commit_ref;
  const place = request.pull_request === null ? ref : `pull request ${request.pull_request}`;
  return [{ event, request, branch, subject: `${what} ${place}`, outcome: outcomeIn(event.state) }];
}

/** Blank for a pull request, a tag and a bare SHA. A fetch that failed has only the branch that was requested. */
function branchOf({ pull_request: pullRequest, fetched_as: fetchedAs, branch, commit_ref: asked }: Request): string {
  if (pullRequest !== null) return '';
  if (fetchedAs !== '') return fetchedAs.startsWith('refs/heads/') ? fetchedAs.slice('refs/heads/'.length) : '';
  return branch || (/^[0-9a-f]{40}$|^refs\/(?!heads\/)/.test(asked) ? '' : asked.replace(/^refs\/heads\//, ''));
}

function outcomeIn(state: string): Outcome | undefined {
  if (state === 'passed') return 'passed';
  return ['failed', 'errored', 'timed_out'].includes(state) ? 'failed' : undefined;
}

/** The outcome before, blank if unknown. Undefined if the event is not wanted. */
async function isWanted(
  context: WriteContext,
  notification: Choosing,
  placed: Placed,
  defaultBranch: string,
): Promise<Outcome | '' | undefined> {
  const { event, request, branch, outcome } = placed;
  const isWebhook = notification.name === 'webhook';
  // The messages of the other types are about requests that are over.
  const isMessage = event.type === 'build_request' && outcome !== undefined && request.deploy_id === null;
  if (!isWebhook && !isMessage) return undefined;
  const patterns = globs('').fromColumn(notification.branches);
  const isOfBranch =
    patterns.length === 0
      ? isWebhook || (branch !== '' && branch === defaultBranch)
      : branch !== '' && patterns.some((glob) => wholeMatcher(glob)?.(branch));
  if (!isOfBranch) return undefined;
  const before = await outcomeBefore(context, notification.id, placed);
  const wanted = wantedBy(notification);
  if (wanted === 'all') return before ?? '';
  if (wanted === 'failures') return outcome === 'failed' ? (before ?? '') : undefined;
  const isChange = before === '' ? outcome === 'failed' : before !== undefined && before !== outcome;
  return isChange ? before : undefined;
}

/** Notes the outcome. Undefined if it says nothing about its branch: an older request, or one of some suites only. */
async function outcomeBefore(
  { trx, ids }: WriteContext,
  notificationId: bigint,
  { event, request, subject, outcome }: Placed,
): Promise<Outcome | '' | undefined> {
  if (outcome === undefined || (event.type !== 'build' && request.suites !== '[]')) return undefined;
  const outcomes = trx
    .selectFrom('notification_outcomes')
    .select(['id', 'outcome', 'request_id'])
    .where('notification_id', '=', notificationId)
    .where('subject', '=', subject);
  const last = await outcomes.executeTakeFirst();
  if (last && last.request_id > request.id) return undefined;
  const row = { outcome, request_id: request.id };
  if (last) await trx.updateTable('notification_outcomes').set(row).where('id', '=', last.id).execute();
  else
    await trx
      .insertInto('notification_outcomes')
      .values({ id: ids.next(), notification_id: notificationId, subject, ...row })
      .execute();
  return (last?.outcome as Outcome | undefined) ?? '';
}

/** One message, but each person gets a letter of their own. */
async function reportsFor(
  trx: Transaction,
  { id, project_id: projectId, name }: Choosing,
  { event, request }: Placed,
  before: Outcome | '',
): Promise<NewsReport[]> {
  if (name === 'webhook') return [];
  const report = { build_request_id: String(request.id), state: event.state, before };
  if (name !== 'email') return [report];
  const { to } = await trx
    .selectFrom('notifications')
    .select('url as to')
    .where('id', '=', id)
    .executeTakeFirstOrThrow();
  const addresses = to === 'committers' ? await committersOf(trx, request) : to.split(', ');
  return (await takersAmong(trx, projectId, addresses)).map((address) => ({ ...report, to: address }));
}

async function committersOf(trx: Transaction, { commit_id: id }: Request): Promise<string[]> {
  const columns = ['scm_author_email', 'scm_committer_email'] as const;
  const commit = await trx.selectFrom('commits').select(columns).where('id', '=', id).executeTakeFirst();
  return commit ? [commit.scm_author_email.toLowerCase(), commit.scm_committer_email.toLowerCase()] : [];
}

/** The users of the project among them who take news by e-mail. */
export async function takersAmong(
  trx: Pick<Transaction, 'selectFrom'>,
  projectId: bigint,
  addresses: readonly string[],
): Promise<string[]> {
  if (addresses.length === 0) return [];
  const users = usersOfProject(trx as Transaction, projectId)
    .select('email')
    .where('email', 'in', addresses);
  return (await users.where('news', '=', 1).orderBy('users.id').execute()).map(({ email }) => email);
}
