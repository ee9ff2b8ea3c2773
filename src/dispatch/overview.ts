import { sql } from 'kysely';
import { setTimeout as pause } from 'node:timers/promises';
import { runnersNow, whyNobody, type RunnerNow } from '../auth/runner-visits.ts';
import type { Database } from '../db/open.ts';
import { timeOfId } from '../lib/ids.ts';
import { hasTags } from '../lib/tags.ts';
import { workKinds } from '../protocol/index.ts';

import { everyKind } from './newer-work.ts';

/** The state of the queue and the runners, for operators. */
export interface Overview {
  runners: Record<RunnerNow['state'], number>;
  /** Why nobody takes any work, or some of it, in words for anybody; undefined when somebody does. */
  whyNobody: string | undefined;
  waiting: number;
  /** How long the oldest unclaimed job has waited. */
  oldestSeconds: number;
  running: Record<string, number>;
}

const lookEveryMs = 1000;
const longestLookMs = 2000;

/** Queries at most once a second, however often it is called. Rejects soon when the database does not answer. */
export function watchOverview(db: Pick<Database, 'read' | 'clock'>): () => Promise<Overview> {
  let known: Overview | undefined;
  let looking: Promise<Overview> | undefined;
  let lookedAt = -Infinity;
  const lookNow = async (): Promise<Overview> => {
    known = await look(db);
    lookedAt = performance.now();
    return known;
  };
  return async () => {
    if (known && performance.now() - lookedAt < lookEveryMs) return known;
    looking ??= lookNow().finally(() => (looking = undefined));
    return Promise.race([looking, tooLate()]);
  };
}

async function tooLate(): Promise<never> {
  await pause(longestLookMs, undefined, { ref: false });
  throw new Error('the database does not answer');
}

async function look(db: Pick<Database, 'read' | 'clock'>): Promise<Overview> {
  const all = await runnersNow(db);
  const runners = { idle: 0, busy: 0, away: 0, failing: 0 };
  for (const { state } of all) runners[state] += 1;
  const work = db.read.selectFrom('jobs').where('kind', 'in', everyKind);
  const waiting = await work
    .select((of) => ['tags', of.fn.countAll<bigint>().as('count'), of.fn.min(sql<bigint>`abs(id)`).as('oldest')])
    .where('claim', 'is', null)
    .groupBy('tags')
    .execute();
  const running = await work
    .select((of) => ['kind', of.fn.countAll<bigint>().as('count')])
    .where('claim', 'is not', null)
    .groupBy('kind')
    .execute();
  const present = all.filter(takesWork).map(({ tags }) => tags.join(','));
  const isStuck = waiting.some(({ tags }) => !present.some((own) => hasTags(own, tags)));
  // Whose tags these are is for those alone who see the work: anybody may read this.
  const stuck = isStuck ? 'some of the work that waits needs tags that no connected runner has' : undefined;
  const ages = waiting.map(({ oldest }) => (Date.now() - timeOfId(oldest)) / 1000);
  return {
    runners,
    whyNobody: present.length > 0 ? stuck : whyNobody(all),
    waiting: waiting.reduce((sum, { count }) => sum + Number(count), 0),
    oldestSeconds: Math.max(0, ...ages),
    running: Object.fromEntries(workKinds.map((kind) => [kind, countOf(running, kind)])),
  };
}

function takesWork({ state, isDraining }: RunnerNow): boolean {
  return !isDraining && (state === 'idle' || state === 'busy');
}

function countOf(rows: readonly { kind: string; count: bigint }[], kind: string): number {
  return Number(rows.find((row) => row.kind === kind)?.count ?? 0n);
}
