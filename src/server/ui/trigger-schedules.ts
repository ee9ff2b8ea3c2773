import { longestPoll, projectFields, shortestPoll, type Polling } from '../../shared/records/project.ts';
import { scheduleFields, type Schedule } from '../../shared/records/trigger.ts';
import { fieldTable } from './controls.ts';
import { recordForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { ago } from './moments.ts';
import type { PageAction } from './pages.ts';
import { beside, empty, fact, section, table } from './parts.ts';
import { isOwned, type ProjectVisit } from './project-pages.ts';
import { resource } from './resource-pages.ts';
import { settingsPage, settingsPath } from './settings.ts';
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

const of = '/projects/:project_id/schedules';

const scheduleForm = fieldTable(scheduleFields, {
  cron: {
    label: 'Cron',
    isCode: true,
    placeholder: '0 3 * * 1-5',
    hint: 'Five fields: minute, hour, day, month, day of the week.',
    wrong: 'These are not five fields of cron that ever come true.',
  },
  time_zone: {
    label: 'Time zone',
    isCode: true,
    hint: html`Such as <code>Europe/Berlin</code>.`,
    wrong: 'There is no such time zone.',
  },
  commit_ref: {
    label: 'Branch, tag or commit',
    isCode: true,
    hint: 'Blank is the default branch.',
    wrong: 'This cannot be the name of a branch, a tag or a commit.',
  },
});

export const createSchedule: PageAction = {
  route: `POST ${of}`,
  done: (_, visit) => ({ goTo: `${visit.path}#schedules-title`, notice: 'created' }),
};

const { newForm, routes } = resource({
  noun: 'schedule',
  frame: settingsPage,
  path: '/triggers/schedules/:schedule_id',
  read: (visit: ProjectVisit) => visit.api.get(`${of}/:schedule_id`),
  all: 'All triggers',
  back: (visit) => `${settingsPath(visit)}/triggers`,
  form: scheduleForm,
  creation: { action: 'create_schedule' },
  save: { route: `PUT ${of}/:schedule_id`, done: 'saved' },
  below: (schedule, visit) =>
    html`<dl class="facts card" id="runs" data-live>
      ${fact('Next time', schedule.next_run_at === null ? '–' : ago(schedule.next_run_at))}
      ${fact('Last time', lastRun(schedule, visit))}
    </dl>`,
  delete: `DELETE ${of}/:schedule_id`,
  mayDelete: isOwned,
  goes: ({ cron, time_zone: zone }) =>
    html`<p>
      The schedule <strong><code>${cron}</code> ${zone}</strong> goes. Nothing is built for it any more; what it built
      stays.
    </p>`,
});

export { routes };

export async function schedulesPart(visit: ProjectVisit): Promise<Html> {
  const rows = (await visit.api.get(of)).map((schedule) => scheduleRow(schedule, visit));
  const none = empty('No schedule yet', 'A schedule has a commit built at certain times, such as every night.');
  return section(
    'schedules',
    'Schedules',
    beside(
      html`<div id="schedules" data-live>${table('Schedules', ['Times', 'Next', 'Last'], rows, { none })}</div>`,
      await newForm(visit),
    ),
  );
}

function scheduleRow(schedule: Schedule, visit: ProjectVisit): Html {
  const { id_str: id, cron, time_zone: zone, commit_ref: ref, next_run_at: next } = schedule;
  return html`<tr id="schedule-${id}">
    <td>
      <a href="${settingsPath(visit)}/triggers/schedules/${id}"><code>${cron}</code></a> ${zone}<br />
      ${ref === '' ? 'The default branch' : html`<code>${ref}</code>`}
    </td>
    <td class="nowrap">${next === null ? '–' : ago(next)}</td>
    <td>${lastRun(schedule, visit)}</td>
  </tr>`;
}

function lastRun(schedule: Schedule, { projectPath }: ProjectVisit): Html {
  const { last_run_at: last, last_outcome: outcome, last_reason: reason } = schedule;
  const { last_build_request_id_str: request } = schedule;
  if (last === null) return html`Never`;
  return html`${ago(last)} ${typeof outcome === 'string' && stateBadge(outcome)} ${reason}
  ${typeof request === 'string' && request !== '' && html`<a href="${projectPath}/requests/${request}">Build request</a>`}`;
}
