import { accountRoute, organisationRoute } from '../api/route.ts';
import { lookAgain, runnersNow, type RunnerNow } from '../auth/runner-heartbeats.ts';
import { timestampOrNull } from '../../shared/lib/timestamps.ts';
import { lookingRecord, runnerRecord, type Runner } from '../../shared/records/installation.ts';
import { listOf } from '../../shared/records/schema.ts';
import { withIdString } from './common.ts';

function view(runner: RunnerNow): Runner {
  const { name, isLocal, isDraining, state, trouble, version, seenAt, accounts, tags, work } = runner;
  return {
    name,
    kind: isLocal ? 'local' : 'remote',
    state,
    draining: isDraining,
    trouble,
    version,
    last_seen_at: timestampOrNull(seenAt),
    accounts,
    tags,
    work: work.map(({ kind, subjectId, account }) => ({ kind, ...withIdString('id', subjectId), account })),
  };
}

/** Runners are recorded when they call (auth/runner-heartbeats.ts). */
export const routes = [
  accountRoute({
    method: 'POST',
    path: '/runners/look',
    access: 'operators',
    scope: 'never',
    summary: 'Try again to start the servers’ own runners that did not start',
    audit: 'nothing',
    answer: lookingRecord,
    async handle({ db, database }) {
      await database.announce(db, lookAgain);
      return { looking: true };
    },
  }),
  accountRoute({
    method: 'GET',
    path: '/runners',
    access: 'operators',
    scope: 'user',
    summary: 'List the runners, including the servers’ own, with the jobs of each',

    answer: listOf(runnerRecord),
    handle: async ({ database }) => (await runnersNow(database)).map(view),
  }),
  organisationRoute({
    method: 'GET',
    path: '/organisations/:organisation_id/runners',
    access: 'owner',
    scope: 'organisations',
    summary: 'List the runners that work for an organisation, and what they do for it',
    answer: listOf(runnerRecord),
    async handle({ database, organisation: { name } }) {
      const own = (await runnersNow(database)).filter(({ accounts }) => accounts.includes(name));
      // A runner may also work for other accounts, which are nobody's business here.
      return own.map((runner) =>
        view({ ...runner, accounts: [name], work: runner.work.filter(({ account }) => account === name) }),
      );
    },
  }),
];
