import { projectRoute } from '../api/route.ts';
import { timestamp } from '../../shared/lib/timestamps.ts';
import { statisticsOf, type DayOfProject } from '../results/statistics.ts';
import { statisticsRecord } from '../../shared/records/statistics.ts';

function summaryView({ finished, passed, took, waited, timeToGreen }: Omit<DayOfProject, 'day'>) {
  return { finished, passed, duration_ms: took, queue_ms: waited, time_to_green_ms: timeToGreen };
}

export const routes = [
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/statistics',
    access: 'public',
    scope: 'commits',
    summary:
      'How a project did in the last 30 days: pass rate, duration and time to green of its default branch, queue time, ' +
      'and the durations of its suites',
    answer: statisticsRecord,
    async handle({ db, project }) {
      const { default_branch: branch } = await db
        .selectFrom('projects')
        .select('default_branch')
        .where('id', '=', project.id)
        .executeTakeFirstOrThrow();
      const { since, days, suites, ...all } = await statisticsOf(db, project.id, branch);
      return {
        default_branch: branch,
        since: timestamp(since),
        ...summaryView(all),
        days: days.map(({ day, ...summary }) => ({ day, ...summaryView(summary) })),
        suites: suites.map(({ name, builds, passed, byMachine, median, slow }) => ({
          suite_name: name,
          builds,
          passed,
          machine_tries: byMachine,
          median_ms: median,
          slow_ms: slow,
        })),
      };
    },
  }),
];
