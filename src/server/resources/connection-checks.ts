import { projectRoute } from '../api/route.ts';
import { whyNobodyTakes } from '../auth/runner-heartbeats.ts';
import { ApiError } from '../../shared/errors.ts';
import {
  beginCheck,
  checkResult,
  giveUpCheck,
  isCheckBegun,
  longestCheckMs,
  type ConnectionCheck,
} from '../triggers/connection-checks.ts';
import { subjectTopic } from '../lifecycle/write-context.ts';
import { connectionCheckRecord } from '../../shared/records/project.ts';
import { writeContextOf } from './common.ts';

function view({ connected, message, default_branch, branches }: Omit<ConnectionCheck, 'workflows'>) {
  return { connected, message, default_branch, branches };
}

const allAreBusy = 'All runners are busy. Try again later.';
const noAnswer =
  'The runner did not finish the connection check in time. Try again. If it happens again, check the runner and its connection to the repository’s host.';

/** The server also queries at this interval, because announcements can be lost. */
const checkEveryMs = 1000;

export const routes = [
  projectRoute({
    method: 'POST',
    path: '/projects/:project_id/check_connection',
    access: 'developer',
    scope: 'projects',
    makesWork: true,
    summary:
      'Check that the repository can be read, with the key of the project or over HTTPS, and describe the problem if ' +
      'it cannot; responds within 15 s',
    answer: connectionCheckRecord,
    audit: { action: 'project.connection_checked', subject: ({ project }) => project },
    async handle(call) {
      return { id: await beginCheck(writeContextOf(call), call.project) };
    },
    async follow(call, { id }: { id: bigint }) {
      const { database, subscriptions, project, db, checkMs = longestCheckMs } = call;
      const deadline = performance.now() + checkMs;
      using watch = subscriptions.watch(subjectTopic(id));
      let reason: string | undefined;
      while (reason === undefined && performance.now() < deadline) {
        const seen = await checkResult(db, id);
        if (seen === 'gone') throw new ApiError('not_found');
        if (seen) return view(seen);
        reason = await whyNobodyTakes(database, project.owner_id);
        if (reason === undefined)
          await watch.changed(Math.max(0, Math.min(deadline - performance.now(), checkEveryMs)));
      }
      const whyNot = (await isCheckBegun(db, id)) ? noAnswer : allAreBusy;
      const message = reason === undefined ? whyNot : `No runner can check the connection: ${reason}.`;
      const given = { connected: false, message, default_branch: null, branches: [], files: [] };
      await database.transaction((trx) => giveUpCheck(writeContextOf({ ...call, db: trx }), id, given));
      return view(given);
    },
  }),
];
