import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sql } from 'kysely';
import { migrate } from '../src/server/db/migrate.ts';
import { openDatabase, type Database } from '../src/server/db/open.ts';
import { slotOf } from '../src/shared/domain/runner-slots.ts';
import { workKinds } from '../src/shared/protocol/index.ts';
import { claim } from '../src/server/queue/claims.ts';
import { enqueue, remove } from '../src/server/queue/queue.ts';
import { onBoth, type Databases } from './support/databases.ts';
import { median, round, type Figure } from './support/report.ts';

/** The kinds of a slot for builds: a claim is for one slot. */
const kinds = workKinds.filter((kind) => slotOf(kind) === 'builds');
const accounts = 5;
const [few, many] = [10, 100_000];
const samples = 600;

/** Time of a claim and its commit, with a long queue over a short one. Each also has as many postponed jobs. */
export async function claimFigures(databases: Databases): Promise<Figure[]> {
  const { sqlite, postgres } = await onBoth(databases, async (settings, name): Promise<Figure> => {
    await using stack = new AsyncDisposableStack();
    const folder = mkdtempSync(join(tmpdir(), 'headrace-bench-'));
    stack.defer(() => rmSync(folder, { recursive: true }));
    const open = async (own: NodeJS.ProcessEnv, waiting: number): Promise<Queue> => {
      const db = await openDatabase({ url: own.HEADRACE_DATABASE_URL ?? join(folder, `${waiting}.db`) });
      stack.defer(() => db.close());
      return fill(db, waiting);
    };
    const short = await open(settings, few);
    const long = await open(await databases.settingsFor(name), many);
    const [ofShort, ofLong]: [number[], number[]] = [[], []];
    for (let turn = 0; turn < samples; turn += 1) {
      if (turn === 50) ofShort.length = ofLong.length = 0; // the first turns warm up
      ofShort.push(await short.claimOne());
      ofLong.push(await long.claimOne());
    }
    return {
      what: `a claim on ${name}, time with a long queue over a short one`,
      value: median(ofLong) / median(ofShort),
      limit: { atMost: 1.3 },
      from: `${round(median(ofLong))} ms with ${many} waiting jobs against ${round(median(ofShort))} ms with ${few}`,
    };
  });
  return [sqlite, postgres];
}

interface Queue {
  /** Milliseconds of a claim. Afterwards the job is replaced by a new waiting one, which is not measured. */
  claimOne(): Promise<number>;
}

async function fill(db: Database, waiting: number): Promise<Queue> {
  let last = BigInt(waiting);
  const ids = { next: () => (last += 1n) };
  await migrate(db);
  const next = (account: bigint) => ({ kind: 'run_suite', subjectId: ids.next(), accountId: account });
  await db.transaction(async (trx) => {
    await sql`
      insert into jobs (id, kind, subject_id, account_id, tries, run_after, cancelled, tags)
      with recursive numbers (number) as (
        select 1 union all select number + 1 from numbers where number < ${sql.lit(waiting)}
      )
      select number, 'run_suite', number, number % ${sql.lit(accounts)} + 1, 0, 0, 0, '' from numbers
      union all select -number, 'run_suite', -number, 0, 0, ${sql.lit(2n ** 62n)}, 0, '' from numbers`.execute(trx);
    await sql`insert into queue_turns (account_id, turn) select distinct account_id, 0 from jobs`.execute(trx);
  });
  // PostgreSQL does this automatically a minute after so many rows were written.
  if (db.kind === 'postgres') await sql`analyze`.execute(db.read);
  return {
    async claimOne() {
      const claiming = { kinds, holder: 'bench', location: 'bench', seconds: 60, turn: ids.next() };
      const startedAt = performance.now();
      const job = await db.transaction((trx) => claim(db, trx, claiming));
      const taken = performance.now() - startedAt;
      if (typeof job !== 'object') throw new Error('there was nothing to claim');
      await db.transaction(async (trx) => {
        await remove(db, trx, job);
        await enqueue(db, trx, ids, next(job.account_id));
      });
      return taken;
    },
  };
}
