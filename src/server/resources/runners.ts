import { accountRoute, organisationRoute } from '../api/route.ts';
import { lookAgain, runnersNow, type RunnerNow } from '../auth/runner-heartbeats.ts';
import type { Queries } from '../db/open.ts';
import { slotOf } from '../../shared/domain/runner-slots.ts';
import { timestampOrNull } from '../../shared/lib/timestamps.ts';
import { lookingRecord, runnerRecord, type Runner } from '../../shared/records/installation.ts';
import { listOf } from '../../shared/records/schema.ts';
import { withIdString } from './common.ts';

type Named = Pick<Runner['work'][number], 'name' | 'project_name' | 'started_at'>;

const unknown: Named = { name: '', project_name: '', started_at: null };

/** The names of what the jobs are about, by subject. Subjects of all kinds have different identifiers. */
async function namesOf(db: Queries, work: RunnerNow['work']): Promise<Map<bigint, Named>> {
  const names = new Map<bigint, Named>();
  const subjects = (...kinds: string[]): bigint[] =>
    work.filter(({ kind }) => kinds.includes(kind)).map(({ subjectId }) => subjectId);
  const [builds, requests, deploys, compiles, checks] = [
    subjects('run_suite', 'check_inputs', 'pack_files'),
    subjects('fetch_commit'),
    subjects('push_deploy'),
    subjects('compile_dependency'),
    subjects('check_connection'),
  ];
  if (builds.length > 0) {
    const rows = await db
      .selectFrom('builds as of')
      .innerJoin('projects', 'projects.id', 'of.project_id')
      .select(['of.id', 'of.suite_name', 'of.variant', 'of.started_at', 'projects.name as project_name'])
      .where('of.id', 'in', builds)
      .execute();
    for (const { id, suite_name: suite, variant, started_at: at, project_name } of rows) {
      names.set(id, {
        name: variant === '' ? suite : `${suite} (${variant})`,
        project_name,
        started_at: timestampOrNull(at),
      });
    }
  }
  if (requests.length > 0) {
    const rows = await db
      .selectFrom('build_requests as of')
      .innerJoin('projects', 'projects.id', 'of.project_id')
      .select(['of.id', 'of.commit_ref as name', 'projects.name as project_name'])
      .where('of.id', 'in', requests)
      .execute();
    for (const { id, ...named } of rows) names.set(id, { ...unknown, ...named });
  }
  if (deploys.length > 0) {
    const rows = await db
      .selectFrom('deploys as of')
      .innerJoin('projects', 'projects.id', 'of.project_id')
      .select(['of.id', 'of.remote_branch as name', 'of.started_at', 'projects.name as project_name'])
      .where('of.id', 'in', deploys)
      .execute();
    for (const { id, started_at: at, ...named } of rows) names.set(id, { ...named, started_at: timestampOrNull(at) });
  }
  if (compiles.length > 0) {
    const rows = await db.selectFrom('dependencies').select(['id', 'name']).where('id', 'in', compiles).execute();
    for (const { id, name } of rows) names.set(id, { ...unknown, name });
  }
  if (checks.length > 0) {
    const rows = await db
      .selectFrom('connection_checks as of')
      .innerJoin('projects', 'projects.id', 'of.project_id')
      .select(['of.id', 'of.created_at', 'projects.name as project_name'])
      .where('of.id', 'in', checks)
      .execute();
    for (const { id, created_at: at, project_name } of rows)
      names.set(id, { name: '', project_name, started_at: timestampOrNull(at) });
  }
  return names;
}

function view(runner: RunnerNow, names: ReadonlyMap<bigint, Named>): Runner {
  const { name, isLocal, isDraining, state, trouble, version, seenAt, accounts, tags, slots, work } = runner;
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
    slots,
    busy_slots: work.filter(({ kind }) => slotOf(kind) === 'builds').length,
    work: work.map(({ kind, subjectId, account }) => ({
      kind,
      ...withIdString('id', subjectId),
      account,
      ...(names.get(subjectId) ?? unknown),
    })),
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
    async handle({ db, database }) {
      const runners = await runnersNow(database);
      const names = await namesOf(
        db,
        runners.flatMap(({ work }) => work),
      );
      return runners.map((runner) => view(runner, names));
    },
  }),
  organisationRoute({
    method: 'GET',
    path: '/organisations/:organisation_id/runners',
    access: 'owner',
    scope: 'organisations',
    summary: 'List the runners that work for an organisation, and what they do for it',
    answer: listOf(runnerRecord),
    async handle({ db, database, organisation: { name } }) {
      // A runner may also work for other accounts, which are nobody's business here.
      const own = (await runnersNow(database))
        .filter(({ accounts }) => accounts.includes(name))
        .map((one) => ({ ...one, accounts: [name], work: one.work.filter(({ account }) => account === name) }));
      const names = await namesOf(
        db,
        own.flatMap(({ work }) => work),
      );
      return own.map((one) => view(one, names));
    },
  }),
];
