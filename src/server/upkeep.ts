import type { FastifyBaseLogger } from 'fastify';
import { forgetOldKeys } from './api/idempotency.ts';
import type { CallDeps } from './api/call.ts';
import { forgetOldFlows } from './auth/flows.ts';
import { forgetOldFailures } from './auth/sign-in-throttle.ts';
import { forgetOldHeartbeats } from './auth/runner-heartbeats.ts';
import { forgetBuildTokens } from './auth/build-tokens.ts';
import { forgetOldSessions } from './auth/sessions.ts';
import { forgetOldUserTokens } from './auth/user-tokens.ts';
import type { Config } from '../shared/config.ts';
import { whereAvailable } from './db/unavailable.ts';
import { endLeftShells } from './dispatch/shells.ts';
import { forgetOldHookDeliveries } from './inbound-hooks/retention.ts';
import { forgetOldArchiveUploads } from './software/archive-uploads.ts';
import { forgetOldSummaries } from './outputs/summaries.ts';
import { forgetOldArtifacts } from './outputs/artifacts.ts';
import { collectBlobs, removeDoomedBlobs } from './software/collect.ts';
import { forgetOldKept } from './lifecycle/kept-builds.ts';
import { forgetOldShells } from './outputs/shells.ts';
import { forgetOldUploads } from './lifecycle/uploads.ts';
import { repeatedly } from '../shared/lib/repeatedly.ts';
import { forgetOldCodes } from './oauth/codes.ts';
import { forgetTurns } from './queue/account-turns.ts';
import { forgetOldTests } from './results/test-results.ts';
import { forgetOldLogs } from './streams/retention.ts';
import { forgetOldDeliveries, keptDays } from './outbound-webhooks/retention.ts';

const hour = 60 * 60 * 1000;
const removeEvery = 2000;

export interface UpkeepParts {
  store: Pick<CallDeps, 'db' | 'ids' | 'blobs'>;
  config: Pick<Config, 'log_days' | 'artifact_days' | 'files_hours'>;
  log: Pick<FastifyBaseLogger, 'error'>;
  onTask: (task: string, outcome: 'done' | 'failed', milliseconds: number) => void;
  everyMs?: number;
}

type Task = (store: UpkeepParts['store'], config: UpkeepParts['config'], stopping: AbortSignal) => Promise<unknown>;

/** Several servers may run these tasks at once. */
const tasks: Record<string, Task> = {
  idempotency_keys: ({ db }) => forgetOldKeys(db),
  oauth_codes: ({ db }) => forgetOldCodes(db),
  sessions: ({ db }) => forgetOldSessions(db),
  build_tokens: ({ db }) => forgetBuildTokens(db),
  user_tokens: ({ db }) => forgetOldUserTokens(db),
  sign_in_flows: ({ db }) => forgetOldFlows(db),
  sign_in_failures: ({ db }) => forgetOldFailures(db),
  runner_heartbeats: ({ db }) => forgetOldHeartbeats(db),
  queue_turns: ({ db }) => forgetTurns(db),
  webhook_deliveries: ({ db }) => forgetOldDeliveries(db),
  hook_deliveries: ({ db }) => forgetOldHookDeliveries(db, keptDays),
  logs: ({ db }, config) => forgetOldLogs(db, config.log_days),
  test_results: ({ db }, config) => forgetOldTests(db, config.log_days),
  build_summaries: ({ db }, config) => forgetOldSummaries(db, config.log_days),
  artifacts: ({ db }, config) => forgetOldArtifacts(db, config.artifact_days),
  left_shells: ({ db, ids }) => endLeftShells({ db, ids }),
  kept_builds: ({ db }, config) => forgetOldKept(db, config.files_hours),
  shells: ({ db }) => forgetOldShells(db),
  uploads: ({ db }) => forgetOldUploads(db),
  archive_uploads: ({ db }) => forgetOldArchiveUploads(db),
  blobs: ({ db, blobs }, _, stopping) => collectBlobs(db, blobs, undefined, stopping),
};

export const upkeepTasks = Object.keys(tasks);

/** Runs one task after the other, every hour. A failed task is reported, and the other tasks still run. */
export function startUpkeep({ store, config, log, onTask, everyMs = hour }: UpkeepParts): { stop(): Promise<void> } {
  const stopping = new AbortController();
  const attempt = async (name: string, task: Task): Promise<void> => {
    const beganAt = performance.now();
    try {
      await task(store, config, stopping.signal);
      onTask(name, 'done', performance.now() - beganAt);
    } catch (error) {
      if (stopping.signal.aborted) return;
      onTask(name, 'failed', performance.now() - beganAt);
      log.error({ err: error, task: name }, 'cleanup failed');
    }
  };
  const sweeping = repeatedly(
    everyMs,
    async () => {
      for (const [name, task] of Object.entries(tasks)) if (!stopping.signal.aborted) await attempt(name, task);
    },
    (error) => log.error({ err: error }, 'cleanup failed'),
  );
  const removing = repeatedly(
    removeEvery,
    () => whereAvailable(async () => void (await removeDoomedBlobs(store.db, store.blobs))),
    (error) => log.error({ err: error }, 'removing blobs of deleted records failed'),
  );
  return {
    async stop() {
      stopping.abort(new Error('the server is being stopped'));
      await Promise.all([sweeping.stop(), removing.stop()]);
    },
  };
}
