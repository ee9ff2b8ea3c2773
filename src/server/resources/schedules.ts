import type { ScheduleRow } from '../db/schema.ts';
import { timestamp, timestampOrNull } from '../../shared/lib/timestamps.ts';
import { addSchedule, changeSchedule, deleteSchedule } from '../triggers/schedules.ts';
import { columnsOf, valuesIn } from '../../shared/records/fields.ts';
import { checkTimes, scheduleFields, scheduleRecord } from '../../shared/records/trigger.ts';
import { checkVariables } from './asked-variables.ts';
import { withIdString, writeContextOf } from './common.ts';
import { byQuery, projectRecords } from './record-routes.ts';

function view(schedule: ScheduleRow) {
  const { build_request_id: request } = schedule;
  return {
    ...withIdString('id', schedule.id),
    ...valuesIn(scheduleFields, schedule),
    created_at: timestamp(schedule.created_at),
    next_run_at: timestamp(schedule.next_run_at),
    last_run_at: timestampOrNull(schedule.last_run_at),
    last_outcome: schedule.outcome === '' ? null : schedule.outcome,
    last_reason: schedule.reason,
    last_build_request_id: request,
    last_build_request_id_str: request === null ? '' : String(request),
  };
}

const schedules = projectRecords({
  path: '/projects/:project_id/schedules',
  name: 'schedule',
  access: 'developer',
  reads: 'viewer',
  scope: 'projects',
  fields: scheduleFields,
  answer: scheduleRecord,
  rows: ({ db, project }) => byQuery(db.selectFrom('schedules').selectAll().where('project_id', '=', project.id)),
  view,
  verify: async (call, sent, schedule) => ({
    ...checkTimes({ ...(schedule && valuesIn(scheduleFields, schedule)), ...sent }),
    ...(sent.variables && (await checkVariables(call, sent.variables, { mayLack: true }))),
  }),
  subject: (schedule) => ({ ...schedule, name: schedule.cron }),
});

export const routes = [
  schedules.list('List the schedules of a project, with the next time and the last result of each'),
  schedules.create('Create a schedule, which builds a commit at certain times', {
    creates: 'schedules',
    handle: async (call) =>
      view(await addSchedule(writeContextOf(call), call.project.id, columnsOf(scheduleFields, call.input), Date.now())),
  }),
  schedules.show('Fetch a schedule'),
  schedules.change('Change a schedule', {
    handle: async (call) =>
      view(
        await changeSchedule(writeContextOf(call), call.schedule, columnsOf(scheduleFields, call.input), Date.now()),
      ),
  }),
  schedules.remove('Delete a schedule', {
    access: 'maintainer',
    handle: (call) => deleteSchedule(writeContextOf(call), call.schedule.id),
  }),
];
