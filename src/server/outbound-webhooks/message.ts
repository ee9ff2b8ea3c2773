import type { Blobs } from '../db/blobs.ts';
import type { Queries } from '../db/open.ts';
import type { BuildRow } from '../db/schema.ts';
import type { NewsReport } from '../lifecycle/news.ts';
import { endingSentence } from '../lifecycle/request-statuses.ts';
import { isAllowedFailure, newestAttempts } from '../lifecycle/rollup.ts';
import type { BuildRequestState, BuildState } from '../lifecycle/states.ts';
import { sentence } from '../lifecycle/status-reports.ts';
import { testsOf } from '../results/test-results.ts';
import { lastLines } from '../streams/last-lines.ts';
import { nameWithVariant } from '../../shared/domain/matrix.ts';
import type { StoredStep } from '../views/build-steps.ts';

/** What a message to people says. Everything but the headline and the address may be a stranger's text. */
export interface Message {
  headline: string;
  project: string;
  /** A branch, a tag or a pull request. */
  place: string;
  /** Blank if the commit was not found. */
  sha: string;
  subject: string;
  author: string;
  /** The user who requested the build, if it was not triggered. */
  requestedBy: string;
  changedFiles: string[];
  sentence: string;
  address: string;
  failed: FailedSuite[];
}

export interface FailedSuite {
  name: string;
  sentence: string;
  step: string;
  tests: string[];
  lines: string[];
  address: string;
}

const most = { suites: 5, tests: 10, lines: 20, files: 10 };

export interface MessageParts {
  db: { read: Queries };
  blobs: Blobs;
  origin: string;
}

/** Undefined if the request is gone. */
export async function messageOf(
  { db: { read: db }, blobs, origin }: MessageParts,
  projectId: bigint,
  { build_request_id: id, state, before }: NewsReport,
): Promise<Message | undefined> {
  const request = await db
    .selectFrom('build_requests as r')
    .innerJoin('projects as p', 'p.id', 'r.project_id')
    .leftJoin('commits as c', 'c.id', 'r.commit_id')
    .leftJoin('users as u', 'u.id', 'r.asked_by')
    .select(['r.id', 'r.commit_ref', 'r.branch', 'r.fetched_as', 'r.pull_request', 'r.failure_reason', 'p.name'])
    .select(['c.ref', 'c.message', 'c.scm_author_name', 'c.files', 'u.email as asked_by'])
    .where('r.id', '=', BigInt(id))
    .where('r.project_id', '=', projectId)
    .executeTakeFirst();
  if (!request) return undefined;
  const base = `${origin}/ui/projects/${projectId}`;
  const counted = [request.id];
  const [subject = ''] = (request.message ?? '').split('\n');
  return {
    headline: headlineOf(state, before),
    project: request.name,
    place: placeOf(request),
    sha: request.ref ?? '',
    subject: inShort(subject),
    author: inShort(request.scm_author_name ?? ''),
    requestedBy: request.asked_by ?? '',
    changedFiles: (JSON.parse(request.files ?? '[]') as string[]).slice(0, most.files).map(inShort),
    sentence: await endingSentence(db, counted, state as BuildRequestState, request.failure_reason || undefined),
    address: `${base}/requests/${id}`,
    failed: state === 'passed' ? [] : await failedSuites(db, blobs, request.id, base),
  };
}

function headlineOf(state: string, before: NewsReport['before']): string {
  if (state === 'passed') return before === 'failed' ? 'Passes again' : 'Passed';
  if (before === 'failed') return 'Still fails';
  return state === 'errored' ? 'Could not be built' : 'Failed';
}

interface Placed {
  commit_ref: string;
  branch: string;
  fetched_as: string;
  pull_request: bigint | null;
}

function placeOf({ commit_ref: asked, branch, fetched_as: fetchedAs, pull_request: pullRequest }: Placed): string {
  if (pullRequest !== null) return `pull request ${pullRequest}`;
  return inShort((fetchedAs || branch || asked).replace(/^refs\/(?:heads|tags)\//, ''));
}

async function failedSuites(db: Queries, blobs: Blobs, request: bigint, base: string): Promise<FailedSuite[]> {
  const builds = await db.selectFrom('builds').selectAll().where('build_request_id', '=', request).execute();
  const failed = newestAttempts(builds).filter(
    ({ build_state: state, allow_failure: allowed }) =>
      ['failed', 'errored', 'timed_out'].includes(state) && !isAllowedFailure(state as BuildState, allowed === 1),
  );
  const suites: FailedSuite[] = [];
  for (const build of failed.slice(0, most.suites)) suites.push(await failedSuite(db, blobs, build, base));
  return suites;
}

async function failedSuite(db: Queries, blobs: Blobs, build: BuildRow, base: string): Promise<FailedSuite> {
  const steps = build.steps === '' ? [] : (JSON.parse(build.steps) as StoredStep[]);
  const tests = build.tests_failed > 0 ? await testsOf(db, build.id, { state: 'failed', limit: most.tests }) : [];
  return {
    name: inShort(nameWithVariant(build.suite_name, build.variant)),
    sentence: await sentence(db, build, build.build_state as BuildState),
    step: inShort(steps.find(({ state }) => state === 'failed')?.name ?? ''),
    tests: tests.map(({ name }) => inShort(name)),
    lines: await lastLines({ db, blobs }, build, most.lines),
    address: `${base}/builds/${build.id}`,
  };
}

const longestText = 200;

/** One line without control characters, also without those that turn the direction of text. */
function inShort(text: string): string {
  const line = text.replaceAll(/[\s\p{Cc}\p{Cf}]+/gu, ' ').trim();
  return line.length <= longestText ? line : `${line.slice(0, longestText - 1).toWellFormed()}…`;
}
