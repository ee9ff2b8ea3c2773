import { cronWords } from '../../shared/domain/cron-words.ts';
import { scheduleFields, type Schedule } from '../../shared/records/trigger.ts';
import { fieldTable } from './controls.ts';
import { html, type Html } from './html.ts';
import { ago } from './moments.ts';
import { beside, empty, fact, table } from './parts.ts';
import { isOwned, type ProjectVisit } from './project-pages.ts';
import { resource } from './resource-pages.ts';
import { settingsPage, settingsPath } from './settings.ts';
import type { PageRoute } from './site.ts';
import { stateBadge } from './states.ts';
import { askedFrom, runForm } from './suite-choice.ts';

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
  variables: {
    ...runForm.texts.variables,
    label: 'Variables of its builds',
    hint: html`One on each line, as <code>NAME=value</code>. Parameters that are not named have their defaults.`,
  },
  reuse: {
    label: 'Reuse results',
    hint: 'Suites with reuse do not run if a build with the same inputs passed. Without this, the schedule runs all.',
  },
});

const linesOf = ({ variables }: Pick<Schedule, 'variables'>): string =>
  Object.entries(variables)
    .map((pair) => pair.join('='))
    .join('\n');

const { newForm, routes: ofOne } = resource({
  noun: 'schedule',
  frame: settingsPage,
  path: '/triggers/schedules/:schedule_id',
  read: (visit: ProjectVisit) => visit.api.get(`${of}/:schedule_id`),
  all: 'All schedules',
  back: (visit) => `${settingsPath(visit)}/triggers/schedules`,
  form: scheduleForm,
  fields: (form, _, schedule) =>
    html`${form.fields('cron', 'time_zone', 'commit_ref')}
    ${form.field('variables', { value: schedule ? linesOf(schedule) : '' })} ${form.field('reuse')}`,
  creation: { action: 'create_schedule' },
  save: { route: `PUT ${of}/:schedule_id`, fields: askedFrom, done: 'saved' },
  below: (schedule, visit) =>
    html`<dl class="facts card" id="runs" data-live>
      ${fact('Runs', timesOf(schedule))}
      ${fact('Next time', schedule.next_run_at === null ? '–' : ago(schedule.next_run_at))}
      ${fact('Last time', lastRun(schedule, visit))}
    </dl>`,
  delete: `DELETE ${of}/:schedule_id`,
  mayDelete: isOwned,
  goes: ({ cron, time_zone: zone }) =>
    html`<p>
      The schedule <strong><code>${cron}</code> ${zone}</strong> is deleted. It starts no further builds. Its earlier
      builds stay.
    </p>`,
});

const list = settingsPage({
  path: '/triggers/schedules',
  async show(visit) {
    const rows = (await visit.api.get(of)).map((schedule) => scheduleRow(schedule, visit));
    const none = empty('No schedule yet', 'A schedule has a commit built at certain times, such as every night.');
    return {
      title: 'Schedules',
      main: html`<h1>Schedules</h1>
        ${beside(
          html`<div id="schedules" data-live>${table('Schedules', ['Times', 'Next', 'Last'], rows, { none })}</div>`,
          await newForm(visit),
        )}`,
    };
  },
  actions: { create_schedule: { route: `POST ${of}`, fields: askedFrom, done: 'created' } },
});

export const routes: PageRoute[] = [...list, ...ofOne];

function timesOf({ cron, time_zone: zone }: Schedule): string {
  return `${cronWords(cron)} (${zone})`;
}

function scheduleRow(schedule: Schedule, visit: ProjectVisit): Html {
  const { id_str: id, cron, commit_ref: ref, next_run_at: next } = schedule;
  return html`<tr id="schedule-${id}">
    <td>
      <a href="${settingsPath(visit)}/triggers/schedules/${id}">${timesOf(schedule)}</a>
      <p class="aside"><code>${cron}</code>, ${ref === '' ? 'the default branch' : html`<code>${ref}</code>`}</p>
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
