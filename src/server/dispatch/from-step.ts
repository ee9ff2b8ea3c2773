import { isHolderAlive } from '../auth/runner-heartbeats.ts';
import type { Queries } from '../db/open.ts';
import type { BuildRow, KeptBuildRow } from '../db/schema.ts';
import { findFilesForShell, locationOf, openKey } from '../lifecycle/kept-builds.ts';
import { findPoint, openPoint } from '../lifecycle/step-points.ts';
import { timeOfId } from '../../shared/lib/ids.ts';
import type { FromOrder, PointOrder } from '../../shared/protocol/index.ts';
import type { Asker, Elsewhere, JobContext } from './job-handler.ts';

const checkAgainMs = 10_000;
/** After that, another runner runs all steps. The runner with the files may be busy, or may not have the build's tags. */
const mostWaitMs = 5 * 60_000;

/** The runner decides whether the files still suit the build. */
export async function fromOrder(
  { db, trx, vault }: JobContext,
  build: BuildRow,
  { location }: Asker,
): Promise<{ from?: FromOrder } | Elsewhere> {
  const { from_step: step, from_build: by } = build;
  if (by === null) return {};
  const from = { step, build: String(by) };
  const point = await findPoint(trx, by);
  if (point) {
    const builds = trx.selectFrom('builds').select('started_at').where('id', '=', by);
    const began = (await builds.executeTakeFirst())?.started_at ?? build.created_at;
    const earlierMs = Math.max(0, Number((build.started_at ?? BigInt(Date.now())) - began));
    return { from: { ...from, point: { ...(openPoint(vault, point) as PointOrder), earlierMs } } };
  }
  const kept = await findKept(trx, by);
  if (!kept) return { from };
  if (locationOf(kept) === location) return { from: { ...from, kept: { name: kept.name, key: openKey(vault, kept) } } };
  const mayWait = Date.now() - timeOfId(build.id) < mostWaitMs && (await isHolderAlive(db, kept.holder));
  return mayWait ? { location: locationOf(kept), until: Date.now() + checkAgainMs } : { from };
}

/** A build that started from a step of another and kept nothing leaves that build's files in use. */
async function findKept(trx: Queries, id: bigint): Promise<KeptBuildRow | undefined> {
  for (let by: bigint | null = id; by !== null;) {
    const kept = await findFilesForShell(trx, by);
    if (kept) return kept;
    const build: Pick<BuildRow, 'from_build'> | undefined = await trx
      .selectFrom('builds')
      .select('from_build')
      .where('id', '=', by)
      .executeTakeFirst();
    by = build?.from_build ?? null;
  }
  return undefined;
}
