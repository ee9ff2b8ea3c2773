import { sql } from 'kysely';
import { runAgain, type Queries } from '../db/open.ts';
import type { BuildRequestRow, CommitRow, ProjectRow } from '../db/schema.ts';
import { holdRequests } from './apply-rollup.ts';
import { haveOtherVariables } from './build-variables.ts';
import type { Chosen } from './chosen-suites.ts';
import type { WriteContext } from './write-context.ts';

/*
 * A push and a pull request can bring the same commit of the same branch. The second request joins the first, with the
 * same `join_key`. It runs only suites that the first did not choose, and both roll up into it (rollup.ts). A request
 * that has joined another cannot be joined.
 *
 * The first is decided when the suites of a request are chosen. Until then `joined_to_id` is the likely decision, and
 * the second's fetch waits for the first's (joined-fetches.ts).
 */

/** Bitbucket Cloud reports this much of a SHA. */
const shaDigits = 12;

/** Blank if the commit is not the head of a branch of the repository. The SHA part is empty until the SHA is known. */
export function joinKey(commitRef: string, headBranch: string): string {
  if (headBranch === '') return '';
  const sha = /^[0-9a-f]{12,40}$/.test(commitRef) ? commitRef.slice(0, shaDigits) : '';
  return `${sha} ${headBranch}`;
}

export function knownKey(
  { join_key: key }: Pick<BuildRequestRow, 'join_key'>,
  { ref }: Pick<CommitRow, 'ref'>,
): string {
  return joinKey(ref, key.slice(key.indexOf(' ') + 1));
}

const isFullSha = (ref: string): boolean => /^[0-9a-f]{40}$/.test(ref);

const isWhole = (key: string): boolean => key !== '' && !key.startsWith(' ');

/** Repeats the index's condition word for word. Otherwise the database would not use the index. */
const hasKey = sql<boolean>`join_key > ''`;

/** Finds the requests that a request with one of these keys could join. Lock them before commits (db/lock-order.ts). */
export async function findAlike(db: Queries, projectId: bigint, keys: readonly string[]): Promise<bigint[]> {
  const whole = keys.filter(isWhole);
  if (whole.length === 0) return [];
  const alike = db.selectFrom('build_requests').select('id').where('project_id', '=', projectId);
  const found = alike.where(hasKey).where('join_key', 'in', whole).where('joined_to_id', 'is', null);
  return (await found.execute()).map(({ id }) => id);
}

/**
 * Locks a request whose commit was found, and the requests that it could join. Returns the requests that it could join.
 */
export async function holdToJoin(
  context: WriteContext,
  request: BuildRequestRow,
  sha: string,
): Promise<readonly bigint[]> {
  const alike = await findAlike(context.trx, request.project_id, [knownKey(request, { ref: sha })]);
  await holdRequests(context, [request.id, ...alike]);
  return alike;
}

type Joining = Pick<
  BuildRequestRow,
  'id' | 'project_id' | 'commit_ref' | 'join_key' | 'pull_request' | 'variables' | 'from_fork' | 'joined_to_id'
>;

/**
 * The newest request for the same commit, if one of the two is a push and the other a pull request. With `commit`, only
 * a request whose suites are chosen counts. If the request found is missing from `alike`, the transaction reruns.
 */
export async function findFirst(
  { trx }: WriteContext,
  { build_twice: isTwice, pull_request_builds: which }: Pick<ProjectRow, 'build_twice' | 'pull_request_builds'>,
  request: Joining,
  { alike, commit }: { alike: readonly bigint[]; commit?: Pick<CommitRow, 'id'> },
): Promise<BuildRequestRow | undefined> {
  if (isTwice === 1 || which === 'merge' || request.from_fork === 1 || !isWhole(request.join_key)) return undefined;
  const isOther = request.pull_request === null ? 'is not' : 'is';
  const firsts = trx
    .selectFrom('build_requests')
    .selectAll()
    .where('project_id', '=', request.project_id)
    .where(hasKey)
    .where('join_key', '=', request.join_key)
    .where('id', '!=', request.id)
    .where('joined_to_id', 'is', null)
    .where('from_fork', '=', 0)
    .where('variables', '=', request.variables)
    .where('build_state', 'not in', ['cancelled', 'errored'])
    .$if(commit !== undefined, (some) => some.where('commit_id', '=', commit?.id ?? null).where('fetch', '=', 'done'))
    .$if(isFullSha(request.commit_ref), (some) =>
      some.where((where) =>
        where.or([where('commit_ref', '=', request.commit_ref), where(where.fn('length', ['commit_ref']), '!=', 40)]),
      ),
    )
    .where((where) =>
      where.or([
        where('pull_request', isOther, null),
        where.exists(
          where
            .selectFrom('build_requests as joined')
            .select('joined.id')
            .whereRef('joined.joined_to_id', '=', 'build_requests.id')
            .where('joined.pull_request', isOther, null),
        ),
      ]),
    )
    .orderBy('id', 'desc')
    .limit(1);
  const first = await firsts.executeTakeFirst();
  if (first && !alike.includes(first.id)) runAgain();
  return first;
}

/**
 * The suites that a joined request must run in addition to the first request's. They are suites that the first did not
 * choose, suites with other variables or with tokens that name the ref, and suites that start with files of such a
 * suite.
 */
export async function besidesFirst(
  { trx }: WriteContext,
  { request, first, commit }: { request: BuildRequestRow; first: BuildRequestRow; commit: CommitRow },
  { planned: tried, leftOut }: Chosen,
): Promise<Chosen> {
  const shared = await suitesBuiltFor(trx, first.id);
  const suites = [...new Set(shared.values())];
  const differing = await haveOtherVariables(trx, { suites, requests: [first, request], commit });
  const apart = new Set(Array.from(shared).flatMap(([name, id]) => (differing.has(id) ? [name] : [])));
  for (const { suiteName, hasIdTokens } of tried) if (hasIdTokens) apart.add(suiteName);
  for (const name of apart)
    for (const { suiteName, filesFrom, lentFrom } of tried)
      if (filesFrom === name || lentFrom.includes(name)) apart.add(suiteName);
  return { planned: tried.filter(({ suiteName: name }) => !shared.has(name) || apart.has(name)), leftOut };
}

/** Ids of the suites that a request built, by suite name. */
async function suitesBuiltFor(db: Queries, requestId: bigint): Promise<ReadonlyMap<string, bigint | null>> {
  const builds = db.selectFrom('builds').select(['suite_name', 'suite_id']).distinct();
  const found = await builds.where('build_request_id', '=', requestId).execute();
  return new Map(found.map(({ suite_name: name, suite_id: id }) => [name, id]));
}

export async function suitesOfFirst(
  db: Queries,
  { joined_to_id: first }: Pick<BuildRequestRow, 'joined_to_id'>,
): Promise<ReadonlySet<string>> {
  return new Set(first === null ? [] : (await suitesBuiltFor(db, first)).keys());
}

export function joinedText({ id, pull_request: pull, target_branch: branch }: BuildRequestRow): string {
  const what = pull === null ? `the push to ${branch}` : `pull request ${pull}`;
  return `Joined to build request ${id}, of ${what}: this request runs only the suites that the other one lacks.`;
}
