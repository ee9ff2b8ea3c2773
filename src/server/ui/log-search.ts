import { ApiError } from '../../shared/errors.ts';
import { longest } from '../../shared/domain/bounds.ts';
import { nameWithVariant } from '../../shared/domain/matrix.ts';
import type { ProjectLogSearch } from '../../shared/records/log.ts';
import { piecesOf, plain } from './browser/log-text.ts';
import { html, type Html } from './html.ts';
import { ago, moment } from './moments.ts';
import { counted, empty, filterForm, shortSha } from './parts.ts';
import { projectPage, type ProjectVisit } from './project-pages.ts';
import type { PageRoute } from './site.ts';
import { stateBadge } from './states.ts';

const buildsOnPage = 200;

export function logSearchForm(projectPath: string, { value = '', suite = '' } = {}): Html {
  return filterForm(`${projectPath}/logs`, {
    name: 'expression',
    label: 'Search logs',
    landmark: 'Logs',
    value,
    most: longest.expression,
    button: 'Search',
    beside: { suite_id: suite || undefined },
  });
}

type FoundBuild = ProjectLogSearch['builds'][number];

function item(build: FoundBuild, path: string): Html {
  const { build_id_str: id, build_state: state, number, text, ref, created_at: at } = build;
  const line = piecesOf(text, plain).pieces.map((piece) => piece.text);
  return html`<li class="log-found">
    ${stateBadge(state)}
    <div>
      <a href="${path}/builds/${id}?from=${Math.max(1, number - 20)}#L${number}"
        >${nameWithVariant(build.suite_name, build.variant)}, line ${number}</a
      >
      <span class="aside"><code>${shortSha(ref)}</code> ${ago(at)}</span>
      <code class="brief">${line.join('')}</code>
    </div>
  </li>`;
}

function unsearchedLine({ unsearched }: ProjectLogSearch): Html | false {
  if (!unsearched) return false;
  const { last, builds } = unsearched;
  return html`<p class="notice warn" role="status">
    Not all logs were searched.
    ${last !== null && html`The time was over before the logs of ${moment(last)} and older.`}
    ${builds.length > 0 && `The logs of ${counted(builds.length, 'build')} could not be read.`}
    ${last !== null && 'An expression with more plain characters is faster.'}
  </p>`;
}

function results(found: ProjectLogSearch, path: string): Html {
  const { total, first, last, builds } = found;
  if (total === 0)
    return html`${unsearchedLine(found)} ${empty('Nothing found', 'No line of these logs matches the expression.')}`;
  return html`${unsearchedLine(found)}
    <p>
      ${counted(total, 'build')} with a line that matches, the first ${first !== null && ago(first)}, the last
      ${last !== null && ago(last)}. ${total > builds.length && `The newest ${builds.length} are listed.`}
    </p>
    <ul class="card rows">
      ${builds.map((build) => item(build, path))}
    </ul>`;
}

async function search({ api, queryText }: ProjectVisit, expression: string): Promise<ProjectLogSearch | Html> {
  const query = { expression, suite_id: queryText('suite_id'), limit: buildsOnPage };
  try {
    return await api.get('/projects/:project_id/log_search', { query });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.fields.generic?.includes('resource_temporary_unavailable'))
      return empty('Too many searches', 'You have too many searches at once. Try again when they are done.');
    if (!error.fields['expression'] && !error.fields['suite_id']) throw error;
    return empty(
      'This cannot be searched for',
      html`The expression must be a regular expression in the
        <a href="https://github.com/google/re2/wiki/Syntax" rel="noreferrer">syntax of RE2</a>. Write a backslash before
        characters such as <code>(</code> and <code>[</code>.`,
    );
  }
}

export const routes: PageRoute[] = projectPage({
  path: '/logs',
  tab: 'commits',
  async show(visit) {
    const { projectPath, queryText } = visit;
    const [expression, suite] = [queryText('expression'), queryText('suite_id')];
    const found = expression.trim() === '' ? undefined : await search(visit, expression);
    return {
      title: 'Search logs',
      main: html`<div class="title"><h1>Search logs</h1></div>
        ${logSearchForm(projectPath, { value: expression, suite })}
        <p class="aside">
          A regular expression that a line of a log matches. <code>(?i)</code> at the beginning ignores case.
        </p>
        <div id="found-logs">${found && ('total' in found ? results(found, projectPath) : found)}</div>`,
    };
  },
});
