import { setTimeout as pause } from 'node:timers/promises';
import { noneHasTags, runnersNow, whyNobody, type RunnerNow } from '../auth/runner-heartbeats.ts';
import type { Database } from '../db/open.ts';
import { oldestWaiting, waitingByTags } from '../lifecycle/queue-depth.ts';
import { workKinds } from '../../shared/protocol/index.ts';

export interface Overview {
  runners: Record<RunnerNow['state'], number>;
  /** Why no runner takes some of the work: a sentence that any reader may see. Undefined if runners take all work. */
  whyNobody: string | undefined;
  waiting: number;
  oldestSeconds: number;
  running: Record<string, number>;
}

const checkEveryMs = 1000;
const longestReadMs = 2000;

/** Queries at most once a second. Rejects soon if the database does not respond. */
export function watchOverview(db: Pick<Database, 'read' | 'clock'>): () => Promise<Overview> {
  let known: Overview | undefined;
  let reading: Promise<Overview> | undefined;
  let readAt = -Infinity;
  const refresh = async (): Promise<Overview> => {
    known = await readOverview(db);
    readAt = performance.now();
    return known;
  };
  return async () => {
    if (known && performance.now() - readAt < checkEveryMs) return known;
    reading ??= refresh().finally(() => (reading = undefined));
    return Promise.race([reading, tooLate()]);
  };
}

async function tooLate(): Promise<never> {
  await pause(longestReadMs, undefined, { ref: false });
  throw new Error('the database does not answer');
}

async function readOverview(db: Pick<Database, 'read' | 'clock'>): Promise<Overview> {
  const all = await runnersNow(db);
  const runners = { idle: 0, busy: 0, away: 0, failing: 0 };
  for (const { state } of all) runners[state] += 1;
  const waiting = await waitingByTags(db.read);
  const oldest = await oldestWaiting(db.read, false);
  const running = await db.read
    .selectFrom('jobs')
    .select((of) => ['kind', of.fn.countAll<bigint>().as('count')])
    .where('claim', 'is not', null)
    .where('kind', 'in', workKinds)
    .groupBy('kind')
    .execute();
  const present = all.filter(takesWork).map(({ tags }) => ({ tags: tags.join(',') }));
  return {
    runners,
    whyNobody: present.length > 0 ? whyStuck(waiting, present) : whyNobody(all),
    waiting: waiting.reduce((sum, { count }) => sum + count, 0),
    oldestSeconds: oldest === undefined ? 0 : Math.max(0, Date.now() - oldest) / 1000,
    running: Object.fromEntries(workKinds.map((kind) => [kind, countOf(running, kind)])),
  };
}

/** Names no accounts and tags. Only users who may see the work may see these. */
function whyStuck(waiting: readonly { tags: string }[], present: readonly { tags: string }[]): string | undefined {
  const isStuck = waiting.some(({ tags }) => noneHasTags(present, tags));
  return isStuck ? 'some queued jobs need tags that no connected runner has' : undefined;
}

function takesWork({ state, isDraining }: RunnerNow): boolean {
  return !isDraining && (state === 'idle' || state === 'busy');
}

function countOf(rows: readonly { kind: string; count: bigint }[], kind: string): number {
  return Number(rows.find((row) => row.kind === kind)?.count ?? 0n);
}
