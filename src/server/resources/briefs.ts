import type { Call, WithProject } from '../api/call.ts';
import { projectRoute } from '../api/route.ts';
import { includes } from '../auth/roles.ts';
import { findBrief } from '../briefs/brief.ts';
import { fit } from '../briefs/fit.ts';
import { hunksOf } from '../briefs/hunks.ts';
import { diffLogs } from '../briefs/log-diff.ts';
import { lastPassed, originOf } from '../briefs/runs.ts';
import { asJson, asMarkdown, asText } from '../briefs/render.ts';
import type { Queries } from '../db/open.ts';
import type { BuildRow } from '../db/schema.ts';
import { preferred } from '../http/accept.ts';
import { TextAnswer } from '../http/route.ts';
import { bytes } from '../../shared/domain/bounds.ts';
import { quote } from '../../shared/lib/shell-word.ts';
import { briefRecord, logDiffRecord, type Brief } from '../../shared/records/brief.ts';
import { described, identifier, wholeNumber } from '../../shared/records/fields.ts';
import { isShown } from './build-inputs.ts';
import { findBuild } from './builds.ts';
import { orNotFound, withIdString } from './common.ts';
import { keptUntil } from './kept-files.ts';
import { unlessBusy } from './log-lines.ts';

const texts: Readonly<Record<string, (brief: Brief) => string>> = {
  'text/plain': asText,
  'text/markdown': asMarkdown,
};

export const routes = [
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/builds/:build_id/brief',
    access: 'public',
    scope: 'commits',
    summary:
      'Read in short why a build failed: its failed step and tests, the lines of its log that no passed run has, what ' +
      'changed, how often it ended like this before, and how to reproduce it',
    query: {
      max_bytes: described(wholeNumber({ min: 256, max: bytes.brief, fallback: 8192 }), 'The size of the response'),
    },
    texts: Object.keys(texts),
    endsWithCaller: true,
    answer: briefRecord,
    async handle(call) {
      const { db, database, blobs, project, params, query, caller, signal } = call;
      const build = await findBuild(db, project.id, params.build_id);
      const found = await findBrief({ db, database, blobs }, build, {
        account: caller.id,
        signal,
        maySee: (input) => project.role !== 'public' && isShown(input, build, project.role),
        reproduce: await reproduce(call, build),
      }).catch(unlessBusy);
      const type = preferred(String(call.headers.accept ?? ''), ['application/json', ...Object.keys(texts)]);
      const render = texts[type];
      const brief = fit(found, query.max_bytes, render ?? asJson);
      return render ? new TextAnswer(`${type}; charset=utf-8`, render(brief)) : brief;
    },
  }),
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/builds/:build_id/log/diff',
    access: 'public',
    scope: 'commits',
    summary: 'Compare the log of a build with that of another build of the project, line by line',
    query: { with: described(identifier(), 'The ID of the other build; by default the last one that passed') },
    endsWithCaller: true,
    answer: logDiffRecord,
    async handle({ db, database, blobs, project, params, query, caller, signal }) {
      const build = await findBuild(db, project.id, params.build_id);
      const other =
        query.with === undefined
          ? orNotFound(await lastPassed(db, build, await originOf(db, build)))
          : await findBuild(db, project.id, query.with);
      const parts = { db, database, blobs };
      const logs = { id: build.id, withId: other.id };
      const diff = await diffLogs(parts, { ...logs, account: caller.id, signal }).catch(unlessBusy);
      return { ...withIdString('with_id', other.id), ...(await hunksOf(parts, logs, diff)) };
    },
  }),
];

async function reproduce(
  call: Pick<Call, 'database' | 'shellHours'> & { db: Queries } & WithProject,
  build: BuildRow,
): Promise<string> {
  const suites = call.db
    .selectFrom('suites')
    .select('name')
    .where('id', '=', build.suite_id ?? 0n);
  const suite = await suites.executeTakeFirst();
  if (suite) return `headrace exec ${asWord(suite.name)}${build.variant && ` --variant ${asWord(build.variant)}`}`;
  const mayOpen = includes(call.project.role, 'developer');
  const { files_kept_until: until } = mayOpen ? await keptUntil(call, build) : {};
  return until === undefined ? '' : `headrace shell ${build.id}`;
}

function asWord(text: string): string {
  return /^[\w.@%+:,/-]+$/.test(text) && !text.startsWith('-') ? text : quote(text);
}
