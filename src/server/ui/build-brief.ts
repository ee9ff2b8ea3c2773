import { ApiError } from '../../shared/errors.ts';
import type { Brief } from '../../shared/records/brief.ts';
import type { BuildDetails } from '../../shared/records/overview.ts';
import { html, type Html } from './html.ts';
import { ago } from './moments.ts';
import { copyable, counted, shortSha } from './parts.ts';
import type { ProjectVisit } from './project-pages.ts';

const nothing = html`<section id="brief" data-live></section>`;

/** Why a build failed. Its failed tests have their own list below. `log` is the address of its log. */
export async function briefPart({ api }: ProjectVisit, build: BuildDetails, log: string): Promise<Html> {
  if (!['failed', 'errored', 'timed_out'].includes(build.build_state)) return nothing;
  const brief = await api.get('/projects/:project_id/builds/:build_id/brief').catch((error: unknown) => {
    if (error instanceof ApiError && error.status === 503) return undefined; // too many at once
    throw error;
  });
  if (!brief) return nothing;
  const { step, lines, seen, reproduce } = brief;
  const title = lines.some((line) => line.new) ? 'Lines that no passed run has' : 'The end of the log';
  return html`<section id="brief" aria-label="Why it failed" tabindex="0" data-live>
    <h2>
      ${step ? html`Failed in <code>${step.name}</code>` : 'Why it failed'}
      ${step !== null && step.exit_status !== null && html`<span class="aside">exit status ${step.exit_status}</span>`}
      <span class="aside">${seenWords(seen)}</span>
    </h2>
    ${
      lines.length > 0 &&
      html`<p class="aside">${title}</p>
        <pre>${lines.map((line) => lineOf(line, log))}</pre>`
    }
    ${changedPart(brief)} ${reproduce !== '' && copyable(reproduce, 'reproduce')}
  </section>`;
}

const lineEnd = '\n';

function lineOf({ number, text, new: isNew }: Brief['lines'][number], log: string): Html {
  const shown = isNew ? html`<b>${text}</b>` : text;
  return html`<a href="${log}?from=${number}#L${number}">${number}</a> ${shown}${lineEnd}`;
}

function seenWords({ count, since, branches }: Brief['seen']): Html | false {
  if (count === 0 || since === null) return false;
  return html`ended like this ${count === 1 ? 'once' : `${count} times`} before, first
  ${ago(since)}${branches.length > 0 && ` on ${branches.slice(0, 3).join(', ')}`}`;
}

const list = (what: string, all: (Html | string)[]): Html | false =>
  all.length > 0 && html`<li>${what}: ${all.map((one, at) => html`${at > 0 && ', '}${one}`)}</li>`;
const code = (text: string): Html => html`<code>${text}</code>`;

function changedPart({ changed: { commits, files, inputs, variables } }: Brief): Html | false {
  const count = commits.length + files.length + inputs.length + variables.length;
  if (count === 0) return false;
  return html`<details>
    <summary>${counted(count, 'change')} since it last passed</summary>
    <ul>
      ${list(
        'Commits',
        commits.map(({ ref, message }) => html`${code(shortSha(ref))} ${message}`),
      )}
      ${list('Files', files.map(code))}
      ${list(
        'Inputs',
        inputs.map(({ kind, name }) => html`${kind} ${code(name)}`),
      )}
      ${list('Variables', variables.map(code))}
    </ul>
  </details>`;
}
