import { sql } from 'kysely';
import packageJson from '../../../package.json' with { type: 'json' };
import { accountRoute } from '../api/route.ts';
import type { Database, Queries } from '../db/open.ts';
import { timeOfId } from '../../shared/lib/ids.ts';
import { timestamp } from '../../shared/lib/timestamps.ts';
import { loadRecord, operationsRecord } from '../../shared/records/installation.ts';
import { withIdString } from './common.ts';
import { recentLoad } from './load.ts';

/** The kind of job that servers do. Runners do all others. */
const deliver = sql.lit('deliver');

async function queueNow(db: Queries) {
  const rows = await db
    .selectFrom('jobs')
    .leftJoin('users', 'users.id', 'jobs.account_id')
    .select((of) => [
      'jobs.account_id',
      'users.email',
      of.fn.count<bigint>('jobs.claim').as('running'),
      of.fn.countAll<bigint>().as('all'),
      of.fn.min(of.case().when('jobs.claim', 'is', null).then(of.ref('jobs.id')).end()).as('oldest'),
    ])
    .where('jobs.kind', '<>', deliver)
    .groupBy(['jobs.account_id', 'users.email'])
    .execute();
  const accounts = rows
    .map(({ account_id: id, email, running, all, oldest }) => ({
      ...withIdString('id', id),
      email: email ?? '',
      waiting: Number(all) - Number(running),
      running: Number(running),
      oldest_seconds: secondsSince(oldest),
    }))
    .toSorted((a, b) => b.waiting - a.waiting || b.running - a.running);
  const sum = (of: (account: (typeof accounts)[number]) => number): number =>
    accounts.reduce((total, account) => total + of(account), 0);
  return {
    waiting: sum(({ waiting }) => waiting),
    running: sum(({ running }) => running),
    oldest_seconds: Math.max(0, ...accounts.map(({ oldest_seconds: seconds }) => seconds)),
    accounts,
  };
}

function secondsSince(id: bigint | null): number {
  return id === null ? 0 : Math.max(0, Math.floor((Date.now() - timeOfId(id)) / 1000));
}

const mostShown = 100;

/** Only the host of an address is shown: the rest may be a secret. */
async function failingDeliveries(db: Queries) {
  const lines = await db
    .selectFrom('jobs')
    .innerJoin('notifications', 'notifications.id', 'jobs.subject_id')
    .innerJoin('projects', 'projects.id', 'notifications.project_id')
    .leftJoin('users', 'users.id', 'jobs.account_id')
    .select(['notifications.id', 'notifications.url', 'users.email', 'jobs.tries', 'jobs.run_after'])
    .select('projects.name as project_name')
    .where('jobs.kind', '=', deliver)
    .where('jobs.tries', '>', 0)
    .orderBy('jobs.tries', 'desc')
    .orderBy('jobs.id')
    .limit(mostShown)
    .execute();
  return Promise.all(
    lines.map(async ({ id, url, email, project_name, tries, run_after: next }) => {
      const last = await lastAttempt(db, id);
      return {
        ...withIdString('notification_id', id),
        account: email ?? '',
        host: new URL(url).host,
        project_name,
        tries,
        next_try_at: timestamp(next),
        status: last?.status ?? null,
        error: last?.error ?? '',
      };
    }),
  );
}

async function lastAttempt(db: Queries, notificationId: bigint) {
  const waiting = await db
    .selectFrom('webhook_deliveries')
    .select('id')
    .where('notification_id', '=', notificationId)
    .where('state', '=', sql.lit('pending'))
    .orderBy('position')
    .limit(1)
    .executeTakeFirst();
  if (!waiting) return undefined;
  const attempts = db.selectFrom('webhook_attempts').select(['status', 'error']).where('delivery_id', '=', waiting.id);
  return attempts.orderBy('id', 'desc').limit(1).executeTakeFirst();
}

async function versions(db: Database) {
  const applied = db.read.selectFrom('applied_migrations').select('name').orderBy('name', 'desc').limit(1);
  return {
    headrace: packageJson.version,
    node: process.versions.node,
    database: await db.version(),
    migration: (await applied.executeTakeFirst())?.name ?? '',
  };
}

export const routes = [
  accountRoute({
    method: 'GET',
    path: '/operations',
    access: 'operators',
    scope: 'user',
    summary: 'The state of the installation: the queue, failing deliveries, the disks of this server, versions',

    answer: operationsRecord,
    handle: async ({ db, database, disk }) => ({
      queue: await queueNow(db),
      failing_deliveries: await failingDeliveries(db),
      disks: await disk.spaces(),
      versions: await versions(database),
    }),
  }),
  accountRoute({
    method: 'GET',
    path: '/operations/load',
    access: 'operators',
    scope: 'user',
    summary: 'How many builds ran and waited for a runner in the last 24 hours',
    answer: loadRecord,
    handle: ({ database }) => recentLoad(database),
  }),
];
