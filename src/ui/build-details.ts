import { reasonInWords } from '../lifecycle/reasons.ts';
import { askedFor } from './asked-for.ts';
import type { ShownBuild } from './build.ts';
import { suiteName } from './build-rows.ts';
import { commitAtForge } from './forge-links.ts';
import { html, type Html } from './html.ts';
import { ago, duration, moment } from './moments.ts';
import { copyable } from './parts.ts';
import type { ProjectVisit } from './project-pages.ts';

/** What is known of a build beside its log, its tests and its files. */
export function detailsPart({ project, projectPath: path }: ProjectVisit, shown: ShownBuild): Html {
  const { build, commit, request, links } = shown;
  const { started_at: started, finished_at: finished, exit_status: status, failure_reason: reason } = build;
  const suite = suiteName(build);
  const settings = `${path}/settings/suites/${build.suite_id}`;
  return html`<section id="details" aria-label="Details" data-live>
    <dl class="facts card">
      ${fact('Number', html`<code>${build.id_str}</code>`)}
      ${fact('Suite', project.owned && build.suite_name !== null ? html`<a href="${settings}">${suite}</a>` : suite)}
      ${build.variant !== '' && fact('Variant', html`<code>${build.variant}</code>`)}
      ${fact(
        'Commit',
        html`<a href="${path}/commits/${build.commit_id_str}"><code>${commit.ref}</code></a>
          ${commitAtForge(links, commit.ref)}`,
      )}
      ${fact(
        'Request',
        html`<a href="${path}/requests/${build.build_request_id_str}">${ago(build.created_at)}</a>,
          ${askedFor(request, links)}`,
      )}
      ${fact('Began', started === null ? 'not yet' : ago(started))}
      ${fact('Ended', finished === null ? 'not yet' : ago(finished))}
      ${fact('Took', started === null ? '–' : duration(started, finished))}
      ${fact('Exit status', status === null ? '–' : String(status))}
      ${reason !== '' && fact('Reason', reasonInWords(reason))}
    </dl>
    ${shellPart(build, path)}
  </section>`;
}

function fact(name: string, value: Html | string): Html {
  return html`<div>
    <dt>${name}</dt>
    <dd>${value}</dd>
  </div>`;
}

/** How to look around in a build that failed, while a shell can be opened in its files. */
function shellPart({ id_str: id, files_kept_until: until }: ShownBuild['build'], path: string): Html | false {
  if (until === undefined) return false;
  return html`<p class="aside">Its files are kept until ${moment(until)}.</p>
    <p><a class="button" href="${path}/builds/${id}/shell">Open a shell</a> or, in a terminal:</p>
    ${copyable(`headrace shell ${id}`, 'shell-command')}`;
}
