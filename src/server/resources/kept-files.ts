import type { Call } from '../api/call.ts';
import { isHolderAlive } from '../auth/runner-heartbeats.ts';
import type { Queries } from '../db/open.ts';
import type { BuildRow } from '../db/schema.ts';
import { timestamp } from '../../shared/lib/timestamps.ts';
import { findFilesForShell, openable } from '../lifecycle/kept-builds.ts';

type Server = Pick<Call, 'database' | 'shellHours'> & { db: Queries };

/** The time until which a shell can be opened. Undefined if none can be opened, or if the runner is unreachable. */
export async function keptUntil(
  { db, database, shellHours }: Server,
  build: Pick<BuildRow, 'id' | 'build_state'>,
): Promise<{ files_kept_until?: string }> {
  if (shellHours === 0 || !openable.has(build.build_state)) return {};
  const kept = await findFilesForShell(db, build.id);
  if (!kept || !(await isHolderAlive(database, kept.holder))) return {};
  return { files_kept_until: timestamp(kept.expires_at) };
}
