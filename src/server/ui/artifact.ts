import { formatBytes } from '../../shared/lib/byte-units.ts';
import type { ArtifactView } from '../../shared/records/artifact-view.ts';
import { durationText, messagePart, testName } from './build-tests.ts';
import { buildName } from './build-rows.ts';
import { html, type Html } from './html.ts';
import { notice } from './layout.ts';
import { linesOf } from './log-viewer.ts';
import { counted, empty } from './parts.ts';
import { projectPage, type ProjectVisit } from './project-pages.ts';
import { stateBadge } from './states.ts';

const ofBuild = '/projects/:project_id/builds/:build_id';
const lineStep = 500;

interface Shown {
  view: ArtifactView;
  /** Where the bytes are, for a browser that shows them. */
  content: string;
}

export const routes = projectPage({
  path: '/builds/:build_id/artifacts/:artifact_id',
  tab: 'commits',
  isOpen: true,
  async show(visit) {
    const { api, projectPath } = visit;
    const isSource = visit.queryText('source') === 'true';
    const from = /^[1-9][0-9]{0,9}$/.exec(visit.queryText('from'))?.[0];
    const build = await api.get(ofBuild);
    const view = await api.get(`${ofBuild}/artifacts/:artifact_id/view`, {
      query: { from, source: isSource ? 'true' : undefined },
    });
    const name = view.path.split('/').at(-1) ?? '';
    const file = `/ui/data${visit.path.slice('/ui'.length)}`;
    const page = `${projectPath}/builds/${build.id_str}`;
    return {
      title: name,
      crumbs: [
        { text: buildName(build), href: page },
        { text: 'Artifacts', href: `${page}/artifacts` },
        { text: name },
      ],
      isWorthPacking: view.address === '', // the address is a secret
      frames: view.address === '' ? "'self'" : new URL(view.address).origin,
      main: html`<div class="title">
          <h1>${name}</h1>
          <div class="row">
            <span class="aside">${formatBytes(view.size)}</span>
            ${sourceLink(visit, view, isSource)}
            ${view.address !== '' && html`<a class="button quiet" href="${view.address}" target="_blank" rel="noopener noreferrer">Open alone</a>`}
            <a class="button quiet" href="${file}" download>Download</a>
          </div>
        </div>
        ${name !== view.path && html`<p class="aside long-name">${view.path}</p>`}
        ${shows[view.kind](visit, { view, content: `${file}/content` })}`,
    };
  },
});

function sourceLink({ path }: ProjectVisit, { kind }: ArtifactView, isSource: boolean): Html | false {
  if (isSource) return html`<a class="button quiet" href="${path}">Show</a>`;
  const hasSource = kind === 'page' || kind === 'tests';
  return hasSource && html`<a class="button quiet" href="${path}?source=true">Source</a>`;
}

const shows: Record<ArtifactView['kind'], (visit: ProjectVisit, shown: Shown) => Html> = {
  text: textPart,
  picture: (_, { view, content }) => html`<p class="artifact-picture"><img src="${content}" alt="${view.path}" /></p>`,
  pdf: (_, { view, content }) =>
    html`<object class="artifact-frame" data="${content}" type="application/pdf" aria-label="${view.path}">
      <p>Your browser shows no PDF here. <a href="${content}">Open it</a>, or download it.</p>
    </object>`,
  page: pagePart,
  tests: testsPart,
  other: () => empty('Nothing to show', 'The bytes of this file are no text, picture or page. It can be downloaded.'),
};

const withoutScripts =
  'Scripts, and styles and pictures in other files, are not loaded: this server has no host name of its own for artifacts (HEADRACE_ARTIFACT_URL).';

/** The attribute repeats what the policy of the response says. */
function pagePart(_: ProjectVisit, { view, content }: Shown): Html {
  const { address, path } = view;
  if (address === '')
    return html`${notice('good', withoutScripts)}
      <iframe
        class="artifact-frame"
        title="${path}"
        src="${content}"
        sandbox=""
        referrerpolicy="no-referrer"
      ></iframe>`;
  return html`<iframe
    class="artifact-frame"
    title="${path}"
    src="${address}"
    sandbox="allow-scripts"
    referrerpolicy="no-referrer"
  ></iframe>`;
}

function textPart(visit: ProjectVisit, { view: { text, size } }: Shown): Html {
  if (text === null || text.total === 0) return empty('An empty file', 'It has no line.');
  const links = linePages(visit, text);
  const lines = text.lines.map((line) => ({ ...line, at: null, mark: '' as const }));
  return html`${!text.complete && notice('good', html`The file has ${formatBytes(size)}. Only its beginning is shown here: download it for the rest.`)}
    ${links}
    <div class="log artifact-text">
      <div class="log-body">
        <div class="log-static" role="region" aria-label="Lines" tabindex="0">
          <div>${linesOf({ style: '', lines })}</div>
        </div>
      </div>
    </div>
    ${lines.length > 20 && links}`;
}

function linePages({ path, queryText }: ProjectVisit, { from, total, lines }: NonNullable<ArtifactView['text']>): Html {
  const last = from + lines.length - 1;
  const source = queryText('source') === 'true' ? { source: 'true' } : {};
  const link = (to: number, text: string): Html =>
    html`<a href="${path}?${new URLSearchParams({ ...source, from: String(to) }).toString()}">${text}</a>`;
  return html`<p class="row">
    Lines ${from} to ${last} of ${total}. ${from > 1 + lineStep && link(1, 'First lines')}
    ${from > 1 && link(Math.max(1, from - lineStep), 'Earlier lines')} ${last < total && link(last + 1, 'Later lines')}
    ${last < total && link(Math.max(last + 1, total - lineStep + 1), 'Last lines')}
  </p>`;
}

function testsPart(_: ProjectVisit, { view: { tests } }: Shown): Html {
  if (tests === null) return html``;
  const { passed, failed, skipped, problem, listed } = tests;
  const all = passed + failed + skipped;
  return html`${problem !== '' && notice('bad', problem)}
    <p>
      ${counted(all, 'test')}: ${failed} failed, ${skipped} skipped, ${passed} passed.
      ${all > listed.length && listed.length > 0 && html`The first ${listed.length} are listed.`}
    </p>
    ${
      listed.length > 0 &&
      html`<ul class="card rows compact">
        ${listed.map(
          (test) =>
            html`<li>
              <p>
                ${stateBadge(test.state)} ${testName(test)}
                <span class="aside">${test.suite} ${durationText(test.duration_ms)}</span>
              </p>
              ${test.file !== '' && html`<p class="aside long-name">${test.file}</p>`} ${messagePart(test.message)}
            </li>`,
        )}
      </ul>`
    }`;
}
