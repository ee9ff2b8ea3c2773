import type { Polling } from '../../shared/records/project.ts';
import type { Schedule } from '../../shared/records/trigger.ts';
import { pageForm, type PageForm } from './forms.ts';
import { html, type Html } from './html.ts';
import { ago } from './moments.ts';
import type { PageAction } from './pages.ts';
import { empty, fact, table } from './parts.ts';
import { deletionPage, type ProjectVisit, recordHead } from './project-pages.ts';
import { settingsPage, settingsPath } from './settings.ts';
import type { PageRoute } from './site.ts';
import { stateBadge } from './states.ts';

const leastInterval = 15;

export async function pollingPart(visit: ProjectVisit): Promise<Html> {
  const { poll_interval: interval, owned } = visit.project;
  const polling = await visit.api.get('/projects/:project_id/polling');
  const form = pageForm(visit, 'save_polling');
  const field = form.text('poll_interval', 'Poll interval', {
    value: String(interval),
    type: 'number',
    hint: `How often the repository is asked for new commits, in seconds: ${leastInterval} or more, 0 for never. Your forge need not reach this server for it.`,
    wrong: `This is neither 0 nor a number of seconds from ${leastInterval} to 86400.`,
  });
  return html`<section aria-labelledby="polling-title">
    <h2 id="polling-title">Polling</h2>
    ${owned && form.wrap(field, { button: 'Save', isCard: true, label: 'Polling' })}
    <div id="polling" data-live>${pollsLine(interval, polling)}</div>
  </section>`;
}

function pollsLine(interval: number, { outcome, reason, last_polled_at: last, next_poll_at: next }: Polling): Html {
  if (interval === 0) return html`<p class="aside">The repository is not polled.</p>`;
  return html`<dl class="facts card">
    ${fact('Last poll', last === null ? 'None yet' : ago(last))} ${fact('Next poll', next === null ? '–' : ago(next))}
    ${fact('What came of it', html`${stateBadge(outcome)} ${reason}`)}
  </dl>`;
}

const of = '/projects/:project_id/schedules';

function scheduleFields(form: PageForm, schedule?: Schedule): Html {
  return html`${form.text('cron', 'Cron', {
    value: schedule?.cron,
    required: true,
    isCode: true,
    placeholder: '0 3 * * 1-5',
    hint: 'Five fields: minute, hour, day, month, day of the week.',
    wrong: 'These are not five fields of cron that ever come true.',
  })}
  ${form.text('time_zone', 'Time zone', {
    value: schedule?.time_zone ?? 'UTC',
    isCode: true,
    hint: html`Such as <code>Europe/Berlin</code>.`,
    wrong: 'There is no such time zone.',
  })}
  ${form.text('commit_ref', 'Branch, tag or commit', {
    value: schedule?.commit_ref,
    isCode: true,
    hint: 'Blank is the default branch.',
    wrong: 'This cannot be the name of a branch, a tag or a commit.',
  })}`;
}

export const createSchedule: PageAction = {
  route: `POST ${of}`,
  done: (_, visit) => ({ goTo: `${visit.path}#schedules-title`, notice: 'created' }),
};

export async function schedulesPart(visit: ProjectVisit): Promise<Html> {
  const schedules = await visit.api.get(of);
  const form = pageForm(visit, 'create_schedule');
  return html`<section aria-labelledby="schedules-title">
    <h2 id="schedules-title">Schedules</h2>
    <div class="beside">
      <div id="schedules" data-live>
        ${table(
          'Schedules',
          ['Times', 'Next', 'Last'],
          schedules.map((schedule) => scheduleRow(schedule, visit)),
          { none: empty('No schedule yet', 'A schedule has a commit built at certain times, such as every night.') },
        )}
      </div>
      ${form.wrap(scheduleFields(form), { button: 'Create schedule', isCard: true, label: 'New schedule' })}
    </div>
  </section>`;
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

const one = settingsPage({
  path: '/triggers/schedules/:schedule_id',
  async show(visit) {
    const schedule = await visit.api.get(`${of}/:schedule_id`);
    const form = pageForm(visit, 'save');
    return {
      title: 'Schedule',
      main: html`${recordHead(visit, { back: `${settingsPath(visit)}/triggers`, all: 'All triggers', title: 'Schedule', isOwners: true })}
        ${form.wrap(scheduleFields(form, schedule), { button: 'Save', isCard: true, label: 'Schedule' })}
        <dl class="facts card" id="runs" data-live>
          ${fact('Next time', schedule.next_run_at === null ? '–' : ago(schedule.next_run_at))}
          ${fact('Last time', lastRun(schedule, visit))}
        </dl>`,
    };
  },
  actions: {
    save: { route: `PUT ${of}/:schedule_id`, done: 'saved' },
  },
});

const deletion = deletionPage({
  path: '/triggers/schedules/:schedule_id/delete',
  route: `DELETE ${of}/:schedule_id`,
  async what(visit) {
    const { cron, time_zone: zone } = await visit.api.get(`${of}/:schedule_id`);
    return {
      title: 'Delete this schedule?',
      goes: html`<p>
        The schedule <strong><code>${cron}</code> ${zone}</strong> goes. Nothing is built for it any more; what it built
        stays.
      </p>`,
    };
  },
  back: (visit) => `${settingsPath(visit)}/triggers`,
});

export const routes: PageRoute[] = [...one, ...deletion];
