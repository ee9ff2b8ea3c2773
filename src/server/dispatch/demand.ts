import { checkRunner, type Runner } from '../auth/runners.ts';
import type { Database } from '../db/open.ts';
import { takeable, workByTags } from '../lifecycle/queue-depth.ts';
import { fetchKinds } from '../../shared/domain/runner-slots.ts';
import type { Demand } from '../../shared/protocol/index.ts';
import { heldBy } from '../queue/leases.ts';

export async function demandFor(db: Database, runner: Runner, mostRunning: number): Promise<Demand> {
  const { holder, tags = '' } = runner;
  // Read running jobs first, so that a job claimed in between is not counted twice. Fetches have their own slots, so a
  // runner with only fetches is about to take a build.
  const held = await heldBy(db.read, holder);
  const running = held.filter(({ kind }) => !fetchKinds.includes(kind)).length;
  const { isDraining } = await checkRunner(db.read, runner);
  if (isDraining) return { waiting: 0, running };
  const accounts = await accountsOf(db, runner);
  return { waiting: takeable(await workByTags(db.read), { tags, accounts, mostRunning }), running };
}

async function accountsOf({ read }: Database, { boundAs }: Runner): Promise<ReadonlySet<bigint> | undefined> {
  if (boundAs === undefined) return undefined;
  const rows = await read.selectFrom('runner_accounts').select('account_id').where('runner_id', '=', boundAs).execute();
  return new Set(rows.map(({ account_id: account }) => account));
}
