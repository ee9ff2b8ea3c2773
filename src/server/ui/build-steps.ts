import type { Build } from '../../shared/records/build.ts';
import { html, type Html } from './html.ts';
import { duration } from './moments.ts';
import { stateBadge } from './states.ts';

/** A single step is not shown, because it always has the build's state. */
export function stepsPart({ steps }: Pick<Build, 'steps'>, log: string): Html {
  if (steps.length < 2) return html`<section id="steps" data-live></section>`;
  return html`<section id="steps" aria-label="Steps" tabindex="0" data-live>
    <ol>
      ${steps.map((step) => {
        const { name, state, line, started_at: started, finished_at: finished } = step;
        const content = html`${stateBadge(state)} <span class="step-name">${name}</span> ${
            started !== null && html`<span class="aside">${duration(started, finished)}</span>`
          }`;
        return html`<li>
          ${
            line === null
              ? html`<span class="step">${content}</span>`
              : html`<a class="step" href="${log}?from=${line}#L${line}">${content}</a>`
          }
        </li>`;
      })}
    </ol>
  </section>`;
}
