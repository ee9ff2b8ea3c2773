import type { Runner } from '../auth/runners.ts';
import type { Transaction } from '../db/open.ts';
import type { JobRow } from '../db/schema.ts';
import { onlyNewer } from '../lib/newer-kinds.ts';
import { placeOf, type PlaceKind } from '../lib/places.ts';
import { ordersKnown, workKinds } from '../protocol/index.ts';

export function isOlder({ orders = ordersKnown }: Pick<Runner, 'orders'>): boolean {
  return orders < ordersKnown;
}

/** The kinds of jobs that a runner may have in a place. */
export function kindsFor(runner: Pick<Runner, 'orders'>, place: PlaceKind): readonly string[] {
  const kinds = isOlder(runner) ? olderKinds : everyKind;
  return kinds.filter((kind) => placeOf(kind) === place);
}

const olderKinds: readonly string[] = workKinds.filter((kind) => kind !== 'fold_cache');
export const everyKind: readonly string[] = [...workKinds, ...onlyNewer];

/** Whether a job has something in its order that an older runner ignores. */
export async function isForNewer(trx: Transaction, { kind, subject_id: id }: JobRow): Promise<boolean> {
  if (kind === 'compile_dependency') {
    const found = trx.selectFrom('dependencies').select('image').where('id', '=', id);
    return (await found.executeTakeFirst())?.image !== '';
  }
  if (kind !== 'run_suite') return false;
  const suite = await trx
    .selectFrom('builds')
    .innerJoin('suites', 'suites.id', 'builds.suite_id')
    .innerJoin('build_requests', 'build_requests.id', 'builds.build_request_id')
    .select(['suites.image', 'suites.artifacts', 'suites.reports', 'build_requests.from_fork'])
    .where('builds.id', '=', id)
    .executeTakeFirst();
  if (!suite) return false;
  return suite.image !== '' || suite.artifacts !== '[]' || suite.reports !== '[]' || suite.from_fork === 1;
}
