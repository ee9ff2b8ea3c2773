import { stripVTControlCharacters } from 'node:util';
import { onPage } from '../api/pages.ts';
import { projectRoute } from '../api/route.ts';
import type { Blobs } from '../db/blobs.ts';
import type { Queries } from '../db/open.ts';
import type { BuildRow } from '../db/schema.ts';
import { pageOf } from '../http/paging.ts';
import { timestamp } from '../../shared/lib/timestamps.ts';
import { flakyTests } from '../results/flaky-tests.ts';
import { settingsOf } from '../lifecycle/file-suites.ts';
import { withFirst } from '../lifecycle/needs.ts';
import { newestAttempts } from '../lifecycle/rollup.ts';
import { buildMachine, isFinal, type BuildState } from '../lifecycle/states.ts';
import { sentence } from '../lifecycle/status-reports.ts';
import {
  buildDetailsRecord,
  commitDetailsRecord,
  flakyTestDetailsRecord,
  saidBuildRecord,
} from '../../shared/records/overview.ts';
import { listOf } from '../../shared/records/schema.ts';
import { findLog, readLog } from '../streams/logs.ts';
import { commitView } from '../views/commit.ts';
import { logged as ofRequests } from './build-requests.ts';
import { findBuild, showing, withheldView } from './builds.ts';
import { loadCommit } from './commits.ts';
import { withIdString } from './common.ts';
import { keptUntil } from './kept-files.ts';
import { flakyView } from './tests.ts';

async function attemptsLike(db: Queries, { commit_id, suite_name, variant }: BuildRow): Promise<BuildRow[]> {
  const builds = db.selectFrom('builds').selectAll().where('commit_id', '=', commit_id);
  const attempts = await builds.where('suite_name', '=', suite_name).where('variant', '=', variant).execute();
  return attempts.toSorted((a, b) => a.attempt - b.attempt);
}

/** Empty before the build starts, because until then the build with the files may still change. */
async function filesOf(db: Queries, { files_of: of, started_at: started }: BuildRow) {
  if (of === null || started === null) return [];
  const builds = db.selectFrom('builds').select(['id', 'suite_name', 'variant']).where('id', '=', of);
  return (await builds.execute()).map(({ id, ...named }) => ({ ...withIdString('id', id), ...named }));
}

/** The builds that this build needs, in its request or in the request that it joined. */
async function neededBy(db: Queries, build: BuildRow) {
  const names = JSON.parse(build.needs) as string[];
  if (names.length === 0) return [];
  const requests = db.selectFrom('build_requests').select('joined_to_id').where('id', '=', build.build_request_id);
  const { joined_to_id: first } = await requests.executeTakeFirstOrThrow();
  const builds = db.selectFrom('builds').selectAll().where('suite_name', 'in', names);
  const ofRequest = (id: bigint) => builds.where('build_request_id', '=', id).execute();
  const own = await ofRequest(build.build_request_id);
  const newest = newestAttempts(withFirst(own, first === null ? [] : await ofRequest(first)));
  return newest.map(({ id, suite_name, variant, build_state, allow_failure: mayFail }) => ({
    ...withIdString('id', id),
    suite_name,
    variant,
    build_state,
    allow_failure: mayFail === 1,
  }));
}

async function artifactsOf(db: Queries, buildId: bigint) {
  const all = db.selectFrom('artifacts').where('build_id', '=', buildId);
  const sum = all.select((of) => [of.fn.countAll().as('files'), of.fn.sum('size').as('bytes')]);
  const { files, bytes } = await sum.executeTakeFirstOrThrow();
  return { artifacts: Number(files), artifact_bytes: Number(bytes) };
}

const lineBytes = 4096;
const longestLine = 240;
/** Only so many builds show their last line, because each needs a read of a log. */
const mostLastLines = 64;

/** The last non-blank line without terminal sequences. After the build, the runner's own lines are skipped. */
async function lastLine({ db, blobs }: { db: Queries; blobs: Blobs }, build: BuildRow): Promise<string> {
  const to = build.output_to ?? (await findLog(db, build.id))?.size ?? 0n;
  const [first, near] = [build.output_from ?? 0n, to - BigInt(lineBytes)];
  const pieces: Buffer[] = [];
  for await (const piece of readLog(db, blobs, build.id, near > first ? near : first, to)) pieces.push(piece);
  const lines = plain(Buffer.concat(pieces).toString('utf8')).split('\n');
  const last = lines.map((line) => line.trim()).findLast((line) => line !== '');
  return (last ?? '').slice(0, longestLine);
}

/** A line with carriage returns is cut to its final text. */
function plain(text: string): string {
  return stripVTControlCharacters(text)
    .replaceAll(/[^\n]*\r(?!\n|$)/g, '')
    .replaceAll(/[^\P{Cc}\n\t]/gu, '');
}

export const routes = [
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/commits/:commit_id/details',
    access: 'public',
    scope: 'commits',
    summary: 'Fetch a commit with the branches and tags that it was found on, and the files that it changed',
    answer: commitDetailsRecord,
    load: loadCommit,
    handle: async ({ commit }) => ({
      ...commitView(commit),
      branches: JSON.parse(commit.branches) as string[],
      tags: JSON.parse(commit.tags) as string[],
      files: JSON.parse(commit.files) as string[],
    }),
  }),
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/builds/:build_id/details',
    access: 'public',
    scope: 'commits',
    summary:
      'Fetch a build with whether its suite still exists, its build request, the build whose files it started with, how it ' +
      'ended in a sentence, the builds that it needs, all attempts at the same suite and variant of the commit, the first ' +
      'one first, and how many artifacts it has',
    answer: buildDetailsRecord,
    async handle(call) {
      const { db, project, params } = call;
      const build = await findBuild(db, project.id, params.build_id);
      const state = build.build_state as BuildState;
      const attempts = await attemptsLike(db, build);
      const view = await showing(call, attempts);
      return {
        ...view(build),
        ...(await keptUntil(call, build)),
        ...withheldView(build),
        suite_exists: (await settingsOf(db, build)) !== undefined,
        ...withIdString('build_request_id', build.build_request_id),
        files_of: await filesOf(db, build),
        sentence: isFinal(buildMachine, state) ? await sentence(db, build, state) : '',
        needs: await neededBy(db, build),
        attempts: attempts.map(view),
        ...(await artifactsOf(db, build.id)),
      };
    },
  }),
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/build_requests/:build_request_id/builds',
    access: 'public',
    scope: 'build_requests',
    summary:
      'List the builds of a build request, every attempt of every suite and variant, with the names of the suites that ' +
      'each needs, and the last log line of each newest attempt; of more than 64 newest attempts, only those of the ' +
      'first ones',
    paged: true,
    answer: listOf(saidBuildRecord),
    async handle(call) {
      const { db, page } = call;
      const builds = db
        .selectFrom('builds')
        .selectAll()
        .where('build_request_id', '=', await ofRequests.findLog(call));
      const rows = await onPage(builds, 'id', page).execute();
      const view = await showing(call, rows);
      const newest = newestAttempts(rows).slice(0, mostLastLines);
      const lastLines = new Map<bigint, string>();
      for (const build of newest) lastLines.set(build.id, await lastLine(call, build));
      return pageOf(
        page,
        rows.map((row) => ({
          ...view(row),
          needs: JSON.parse(row.needs) as string[],
          last_line: lastLines.get(row.id) ?? '',
        })),
      );
    },
  }),
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/tests/flaky/details',
    access: 'public',
    scope: 'commits',
    summary: 'List flaky tests: on how many commits, since which commit, and the build in which each last failed',
    answer: listOf(flakyTestDetailsRecord),
    async handle({ db, project }) {
      const tests = await flakyTests(db, project.id);
      const began = tests.map(({ beganOn }) => beganOn);
      const commits = db.selectFrom('commits').select(['id', 'ref']);
      const rows = began.length === 0 ? [] : await commits.where('id', 'in', began).execute();
      const refs = new Map(rows.map(({ id, ref }) => [id, ref]));
      return tests.map((test) => ({
        ...flakyView(test),
        commits: test.commits,
        ...withIdString('failed_build_id', test.failedBuildId),
        ...withIdString('began_commit_id', test.beganOn),
        began_ref: refs.get(test.beganOn) ?? '',
        began_at: timestamp(test.beganAt),
      }));
    },
  }),
];
