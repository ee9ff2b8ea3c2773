import { projectRoute } from '../api/route.ts';
import type { ScheduleRow } from '../db/schema.ts';
import { timestamp, timestampOrNull } from '../../shared/lib/timestamps.ts';
import { addSchedule, changeSchedule, deleteSchedule } from '../triggers/schedules.ts';
import { valuesIn } from '../../shared/records/fields.ts';
import { checkTimes, scheduleFields, scheduleRecord } from '../../shared/records/trigger.ts';
import { listOf } from '../../shared/records/schema.ts';
import { destroyed, destroyedAnswer, orNotFound, withIdString, writeContextOf, type InProject } from './common.ts';

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

async function loadSchedule({ db, project, params }: InProject<'schedule_id'>): Promise<{ schedule: ScheduleRow }> {
  const query = db.selectFrom('schedules').selectAll().where('project_id', '=', project.id);
  return { schedule: orNotFound(await query.where('id', '=', params.schedule_id).executeTakeFirst()) };
}

/** A schedule has no name, so the audit log uses its times. */
const asSubject = ({ schedule }: { schedule: ScheduleRow }) => ({ ...schedule, name: schedule.cron });

export const routes = [
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/schedules',
    access: 'both',
    scope: 'projects',
    summary: 'List the schedules of a project, with the next time and the last result of each',
    answer: listOf(scheduleRecord),
    async handle({ db, project }) {
      const query = db.selectFrom('schedules').selectAll().where('project_id', '=', project.id).orderBy('id');
      return (await query.execute()).map(view);
    },
  }),
  projectRoute({
    method: 'POST',
    path: '/projects/:project_id/schedules',
    access: 'both',
    scope: 'projects',
    summary: 'Create a schedule, which builds a commit at certain times',
    body: scheduleFields,
    creates: 'schedules',
    answer: scheduleRecord,
    verify: async (_, values) => checkTimes(values),
    audit: { action: 'schedule.created' },
    async handle(call) {
      return view(await addSchedule(writeContextOf(call), call.project.id, call.input, Date.now()));
    },
  }),
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/schedules/:schedule_id',
    access: 'both',
    scope: 'projects',
    summary: 'Fetch a schedule',
    answer: scheduleRecord,
    load: loadSchedule,
    handle: async ({ schedule }) => view(schedule),
  }),
  projectRoute({
    method: 'PUT',
    path: '/projects/:project_id/schedules/:schedule_id',
    access: 'both',
    scope: 'projects',
    summary: 'Change a schedule',
    body: scheduleFields,
    answer: scheduleRecord,
    load: loadSchedule,
    verify: async ({ schedule }, values) => checkTimes({ ...schedule, ...values }),
    audit: { action: 'schedule.updated', subject: asSubject },
    async handle(call) {
      return view(await changeSchedule(writeContextOf(call), call.schedule, call.input, Date.now()));
    },
  }),
  projectRoute({
    method: 'DELETE',
    path: '/projects/:project_id/schedules/:schedule_id',
    access: 'users',
    scope: 'projects',
    summary: 'Delete a schedule',
    answer: destroyedAnswer,
    load: loadSchedule,
    audit: { action: 'schedule.deleted', subject: asSubject },
    async handle(call) {
      await deleteSchedule(writeContextOf(call), call.schedule.id);
      return destroyed;
    },
  }),
];
