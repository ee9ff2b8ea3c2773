import type { KeptBuildRow } from '../db/schema.ts';
import { forgetKept, never, notePacked, openKey, locationOf } from '../lifecycle/kept-builds.ts';
import type { ClaimedJob } from '../queue/leases.ts';
import { makeAccountDue } from '../queue/queue.ts';
import type { JobContext, JobHandler } from './job-handler.ts';
import { sourceOf } from './sources.ts';

const mostTries = 3;

/** Another runner is to begin with these files. */
export const packFiles: JobHandler = {
  keepsLogOpen: true, // it is the log of the build, which is over

  async order(context, job, { location }) {
    const { trx, vault, unpacked } = context;
    const kept = await keptOf(context, job);
    if (!kept || kept.digest !== null) return undefined;
    if (locationOf(kept) !== location) return { location: locationOf(kept), until: never };
    const projects = trx.selectFrom('projects').selectAll().where('id', '=', kept.project_id);
    return {
      kind: 'pack_files',
      source: await sourceOf(trx, vault, await projects.executeTakeFirstOrThrow()),
      name: kept.name,
      key: openKey(vault, kept),
      mostBytes: unpacked.bytes,
    };
  },

  outcomes: ['packed', 'not_packed', 'files_gone', 'cancelled'],

  async settle(context, job, outcome) {
    const { db, trx } = context;
    await makeAccountDue(db, trx, job.account_id, ['run_suite']); // first, as jobs are locked before files
    // A runner cannot choose a blob. Otherwise it could name another account's blob.
    const isStored = outcome.kind === 'packed' && outcome.digest === job.stored_blob;
    if (outcome.kind === 'files_gone') await forgetKept(trx, job.subject_id);
    else if (isStored) await notePacked(trx, job.subject_id, { digest: outcome.digest, size: job.stored_bytes ?? 0n });
    else await notePacked(trx, job.subject_id);
  },

  async lose({ db, trx }, job) {
    if (job.tries < mostTries) return { retry: true };
    await makeAccountDue(db, trx, job.account_id, ['run_suite']);
    await notePacked(trx, job.subject_id);
    return { retry: false };
  },
};

async function keptOf({ trx }: JobContext, { subject_id: id }: ClaimedJob): Promise<KeptBuildRow | undefined> {
  return trx.selectFrom('kept_builds').selectAll().where('id', '=', id).executeTakeFirst();
}
