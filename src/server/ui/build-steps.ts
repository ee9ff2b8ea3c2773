import type { BuildDetails } from '../../shared/records/overview.ts';
import { hidden } from './forms.ts';
import { html, type Html } from './html.ts';
import { keyField } from './layout.ts';
import type { LogStep } from './log-viewer.ts';
import { duration, exactDuration } from './moments.ts';
import type { ProjectVisit } from './project-pages.ts';
import { stateBadge } from './states.ts';

type Stepwise = Pick<BuildDetails, 'steps' | 'step_parts'>;

/** A single step is not shown, because it always has the build's state. */
export function logSteps({ steps, step_parts: parts }: Stepwise): LogStep[] {
  if (steps.length < 2) return [];
  return steps.map(({ name, state, line, started_at: started }, at) => {
    const { command = '', took = null } = parts[at] ?? {};
    const time = took === null ? duration(started, null) : exactDuration(took);
    const heading = html`${stateBadge(state)}
      <span class="step-name">${name}</span> ${command !== '' && html`<code class="step-command">${command}</code>`}
      ${started !== null && html`<span class="aside">${time}</span>`}`;
    return { name, state, line, heading };
  });
}

/** Opens without a script. Its buttons send the name of their step. */
export function restartMenu({ formKey, path }: Pick<ProjectVisit, 'formKey' | 'path'>, { steps }: Stepwise): Html {
  if (steps.length < 2) return html``;
  return html`<details class="switch" id="from-step">
    <summary>From a step</summary>
    <form method="post" action="${path}" aria-label="Run again from a step">
      ${keyField(formKey)}${hidden('do', 'restart')}
      <ul class="card">
        <li class="hint">With the files that the steps before left, if they are still stored.</li>
        ${steps.slice(1).map(({ name }) => html`<li><button class="link" name="from_step" value="${name}">${name}</button></li>`)}
      </ul>
    </form>
  </details>`;
}

/** The list of steps beside the log. The viewer takes its headings from it (`browser/log-steps.ts`). */
export function stepsPart(build: Stepwise, log: string): Html {
  const steps = logSteps(build);
  if (steps.length === 0) return html`<section id="steps" data-live></section>`;
  return html`<section id="steps" aria-label="Steps" data-live>
    <h2>Steps</h2>
    <ol>
      ${steps.map(({ state, line, heading }, at) => {
        const began = build.step_parts[at]?.began ?? null;
        return html`<li
          data-state="${state}"
          ${line !== null && html`data-line="${line}"`}
          ${began !== null && html`data-began="${began}"`}
        >
          ${
            line === null
              ? html`<span class="step">${heading}</span>`
              : html`<a class="step" href="${log}?from=${line}#L${line}">${heading}</a>`
          }
        </li>`;
      })}
    </ol>
  </section>`;
}
