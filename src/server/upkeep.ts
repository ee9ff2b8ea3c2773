import type { FastifyBaseLogger } from 'fastify';
import { forgetOldKeys } from '../api/idempotency.ts';
import type { Services } from '../api/call.ts';
import { forgetOldFailures } from '../auth/sign-in-throttle.ts';
import { forgetOldHeartbeats } from '../auth/runner-heartbeats.ts';
import { forgetOldSessions } from '../auth/sessions.ts';
import type { Config } from '../config.ts';
import { whereAvailable } from '../db/unavailable.ts';
import { endLeftShells } from '../dispatch/shells.ts';
import { forgetOldHookDeliveries } from '../inbound-hooks/retention.ts';
import { forgetOldArchiveUploads } from '../lifecycle/archive-uploads.ts';
import { forgetOldArtifacts } from '../lifecycle/artifacts.ts';
import { collectBlobs, removeDoomedBlobs } from '../lifecycle/collect.ts';
import { forgetOldKept } from '../lifecycle/kept-builds.ts';
import { forgetOldShells } from '../lifecycle/shells.ts';
import { forgetOldUploads } from '../lifecycle/uploads.ts';
import { repeatedly } from '../lib/repeatedly.ts';
import { forgetOldCodes } from '../oauth/codes.ts';
import { forgetTurns } from '../queue/account-turns.ts';
import { forgetOldTests } from '../lifecycle/test-results.ts';
import { forgetOldLogs } from '../streams/retention.ts';
import { forgetOldDeliveries, keptDays } from '../outbound-webhooks/retention.ts';

const hour = 60 * 60 * 1000;
const removeEvery = 2000;

/** Removes expired records and unused blobs from time to time. */
export function startUpkeep(store: Services, config: Config, log: FastifyBaseLogger): { stop(): Promise<void> } {
  const sweep = setInterval(() => {
    tidy(store, config).catch((error: unknown) => log.error({ err: error }, 'cleanup failed'));
  }, hour);
  const removing = repeatedly(
    removeEvery,
    () => whereAvailable(async () => void (await removeDoomedBlobs(store.db, store.blobs))),
    (error) => log.error({ err: error }, 'removing blobs of deleted records failed'),
  );
  return {
    async stop() {
      clearInterval(sweep);
      await removing.stop();
    },
  };
}

/** Removes expired records. Other servers do the same, which is harmless. */
async function tidy({ db, ids, blobs }: Services, config: Config): Promise<void> {
  await forgetOldKeys(db);
  await forgetOldCodes(db);
  await forgetOldSessions(db);
  await forgetOldFailures(db);
  await forgetOldHeartbeats(db);
  await forgetTurns(db);
  await forgetOldDeliveries(db);
  await forgetOldHookDeliveries(db, keptDays);
  await forgetOldLogs(db, config.log_days);
  await forgetOldTests(db, config.log_days);
  await forgetOldArtifacts(db, config.artifact_days);
  await endLeftShells({ db, ids });
  await forgetOldKept(db, config.files_hours);
  await forgetOldShells(db);
  await forgetOldUploads(db);
  await forgetOldArchiveUploads(db);
  await collectBlobs(db, blobs);
}
