import { longestPoll, projectFields, shortestPoll, type Polling } from '../../shared/records/project.ts';
import { fieldTable } from './controls.ts';
import { recordForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { ago } from './moments.ts';
import { fact, section } from './parts.ts';
import type { ProjectVisit } from './project-pages.ts';
import { stateBadge } from './states.ts';

const pollingForm = fieldTable(projectFields, {
  poll_interval: {
    label: 'Poll interval',
    hint: `How often the repository is asked for new commits, in seconds: ${shortestPoll} or more, 0 for never. Your forge need not reach this server for it.`,
    wrong: `This is neither 0 nor a number of seconds from ${shortestPoll} to ${longestPoll}.`,
  },
});

export async function pollingPart(visit: ProjectVisit): Promise<Html> {
  const { project } = visit;
  const polling = await visit.api.get('/projects/:project_id/polling');
  const form = recordForm(visit, 'save_polling', pollingForm, project);
  return section(
    'polling',
    'Polling',
    html`${project.owned && form.wrap(form.fields(), { button: 'Save', isCard: true, label: 'Polling' })}
      <div id="polling" data-live>${pollsLine(project.poll_interval, polling)}</div>`,
  );
}

function pollsLine(interval: number, { outcome, reason, last_polled_at: last, next_poll_at: next }: Polling): Html {
  if (interval === 0) return html`<p class="aside">The repository is not polled.</p>`;
  return html`<dl class="facts card">
    ${fact('Last poll', last === null ? 'None yet' : ago(last))} ${fact('Next poll', next === null ? '–' : ago(next))}
    ${fact('What came of it', html`${stateBadge(outcome)} ${reason}`)}
  </dl>`;
}
