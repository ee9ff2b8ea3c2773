import { projectRoute } from '../api/route.ts';
import { whyNobodyTakes } from '../auth/runner-heartbeats.ts';
import { timestamp, timestampOrNull } from '../../shared/lib/timestamps.ts';
import { pollOf } from '../triggers/polls.ts';
import { pollingRecord } from '../../shared/records/project.ts';

const off = {
  outcome: 'off',
  reason: 'The repository is not polled: poll_interval of the project is 0.',
  failures: 0,
  last_polled_at: null,
  next_poll_at: null,
};

/** A poll this late is waiting for a runner. */
const lateMs = 5000;
const busy = 'A poll is due, but all runners are busy.';

export const routes = [
  projectRoute({
    method: 'GET',
    path: '/projects/:project_id/polling',
    access: 'viewer',
    scope: 'projects',
    summary: 'The last poll of the repository, its outcome and reason, and the time of the next poll',
    answer: pollingRecord,
    async handle({ db, database, project }) {
      const { poll_interval } = project;
      const poll = await pollOf(db, project.id);
      if (!poll) return { poll_interval, ...off };
      const isLate = Date.now() - Number(poll.next_poll_at) > lateMs;
      const nobody = isLate ? await whyNobodyTakes(database, project.owner_id) : undefined;
      const why = nobody === undefined ? busy : `No runner can poll the repository: ${nobody}.`;
      return {
        poll_interval,
        outcome: isLate ? 'waiting' : poll.outcome,
        reason: isLate ? why : poll.reason || 'The first poll is due.',
        failures: poll.failures,
        last_polled_at: timestampOrNull(poll.last_polled_at),
        next_poll_at: timestamp(poll.next_poll_at),
      };
    },
  }),
];
