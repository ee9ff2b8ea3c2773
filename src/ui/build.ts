import type { BuildRow } from '../db/schema.ts';
import { shellPart } from './build-shell.ts';
import { testsPart, type TestCounts } from './build-tests.ts';
import { buildName, buildsOfCommits } from './build-rows.ts';
import { pageForm } from './forms.ts';
import { artifactsPart } from './artifacts.ts';
import { html, type Html } from './html.ts';
import { logPart, logScripts } from './log-viewer.ts';
import { ago, duration } from './moments.ts';
import { notice } from './layout.ts';
import { shortSha, subjectOf, waitingLine } from './parts.ts';
import { projectPage, type ProjectVisit } from './project-pages.ts';
import type { Place } from './site.ts';
import { buildBadge, buildMark, isUnderWay } from './states.ts';
import { reasonInWords } from '../lifecycle/reasons.ts';

/** One attempt at one suite on one commit. */
interface BuildRecord extends TestCounts {
  id: bigint;
  id_str: string;
  suite_id: bigint;
  commit_id: bigint;
  commit_id_str: string;
  build_state: string;
  attempt: number;
  exit_status: number | null;
  failure_reason: string;
  allow_failure: boolean;
  variant: string;
  flaky: boolean;
  created_at: string;
  started_at: string | null;
  finished_at: string | null;
  waiting_reason: string;
  files_kept_until?: string;
  uploads_pending: boolean;
  uploads_lost: string;
}

interface CommitRecord {
  ref: string;
  message: string;
}

function facts(build: BuildRecord, requestId: bigint, commit: CommitRecord, path: string): Html {
  const { exit_status: status, started_at: started, finished_at: finished } = build;
  return html`<dl class="facts">
    <div>
      <dt>Commit</dt>
      <dd>
        <a href="${path}/commits/${build.commit_id_str}"><code>${shortSha(commit.ref)}</code></a>
        ${subjectOf(commit.message).slice(0, 100)}
      </dd>
    </div>
    <div>
      <dt>Asked for</dt>
      <dd><a href="${path}/requests/${requestId}">${ago(build.created_at)}</a></dd>
    </div>
    <div>
      <dt>Began</dt>
      <dd>${started === null ? 'not yet' : ago(started)}</dd>
    </div>
    <div>
      <dt>Took</dt>
      <dd>${started === null ? '–' : duration(started, finished)}</dd>
    </div>
    <div>
      <dt>Exit status</dt>
      <dd>${status ?? '–'}</dd>
    </div>
  </dl>`;
}

const uploadsPending =
  'Artifacts or the cache of this build wait on its runner, because the server cannot store them now. They follow when it can.';

function attempts(all: readonly BuildRow[], current: bigint, path: string): Html | false {
  if (all.length < 2) return false;
  return html`<p class="marks">
    <span class="aside">Attempts:</span>
    ${all.map((build) => {
      const about = `Attempt ${build.attempt}`;
      return build.id === current
        ? html`<span class="here">${buildMark(build, about)}</span>`
        : buildMark(build, about, `${path}/builds/${build.id}`);
    })}
  </p>`;
}

async function show(visit: ProjectVisit) {
  const { api, db, project, projectPath } = visit;
  const build = await api.get<BuildRecord>('/projects/:project_id/builds/:build_id');
  const params = { commit_id: build.commit_id };
  const commit = await api.get<CommitRecord>('/projects/:project_id/commits/:commit_id', { params });
  const all = (await buildsOfCommits(db.read, [build.commit_id])).get(build.commit_id) ?? [];
  const isSame = ({ suite_id: suite, variant }: BuildRow): boolean =>
    suite === build.suite_id && variant === build.variant;
  const same = all.filter(isSame).toReversed();
  const own = same.find(({ id }) => id === build.id);
  const name = own ? buildName(own) : 'Build';
  const [cancel, again] = [pageForm(visit, 'cancel'), pageForm(visit, 'restart')];
  const isOpen = isUnderWay(build.build_state);
  const address = `/projects/${project.id_str}/builds/${build.id_str}`;
  return {
    title: name,
    state: build.build_state,
    live: [`project:${project.id_str}`] as const,
    scripts: logScripts,
    main: html`<div class="title">
        <h1>${name} <span class="aside">attempt ${build.attempt}</span></h1>
        <div class="actions" id="actions" data-live>
          ${
            isOpen
              ? cancel.wrap(html``, { button: 'Cancel', kind: 'danger' })
              : own !== undefined &&
                own.suite_name !== null &&
                again.wrap(html``, { button: 'Run again', kind: 'main' })
          }
        </div>
      </div>
      <div id="build" data-live>
        <p>
          ${buildBadge(build)}
          ${build.failure_reason !== '' && html`<span>${reasonInWords(build.failure_reason)}</span>`}
          ${build.flaky && html`<span>Flaky: it failed, and passed when it was tried again.</span>`}
        </p>
        ${waitingLine(build.waiting_reason)} ${build.uploads_pending && notice('good', uploadsPending)}
        ${build.uploads_lost !== '' && notice('bad', reasonInWords(build.uploads_lost))}
        ${facts(build, own?.build_request_id ?? 0n, commit, projectPath)} ${attempts(same, build.id, projectPath)}
      </div>
      <div id="shell" data-live>${shellPart(build)}</div>
      ${await testsPart(visit, build)}
      <div id="artifacts" data-live>${await artifactsPart(db.read, build.id, address)}</div>
      ${await logPart(visit, '/projects/:project_id/builds/:build_id', address)}`,
  };
}

export const places: Place[] = projectPage({
  path: '/builds/:build_id',
  tab: 'commits',
  show,
  actions: {
    cancel: {
      route: 'POST /projects/:project_id/builds/:build_id/cancel',
      done: (_, { path }) => ({ goTo: path, notice: 'cancelled' }),
    },
    restart: {
      route: 'POST /projects/:project_id/builds/:build_id/restart',
      done: ({ id_str: id }, { param }) => ({ goTo: `/ui/projects/${param('project_id')}/builds/${id}` }),
      refusals: { resource_temporary_unavailable: 'Another attempt at this is under way already.' },
    },
  },
});
