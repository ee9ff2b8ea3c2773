import type { Runner } from '../auth/runners.ts';
import type { BuildRequestRow, ProjectRow } from '../db/schema.ts';
import { recordCommit } from '../lifecycle/commits.ts';
import type { WriteContext } from '../lifecycle/write-context.ts';
import type { FinishReport } from '../protocol/index.ts';
import { holdJob } from '../queue/queue.ts';
import { defaultHeadOf } from './fetch-commit.ts';

/** Applies a file of a repository on a transaction; lines for the log, or why not. Then the transaction is undone. */
export type ApplyConfig = (
  context: WriteContext,
  file: {
    project: ProjectRow;
    request: BuildRequestRow;
    sha: string;
    text: string;
    holdFirst: () => Promise<unknown>;
  },
) => Promise<{ logLines: string[] } | { refused: string[] }>;

/** A report on a commit whose file was applied, with what the log is told of that. */
export interface ConfiguredReport extends FinishReport {
  lines?: string[];
}

class Undone extends Error {
  readonly report: Pick<ConfiguredReport, 'outcome' | 'lines'>;

  constructor(report: Pick<ConfiguredReport, 'outcome' | 'lines'>) {
    super('nothing is applied');
    this.report = report;
  }
}

export interface RepositoryConfigParts extends Omit<WriteContext, 'trx'> {
  configure: ApplyConfig;
}

/**
 * Applies the file that configures a project, before the suites of its commit are chosen. This has a transaction of its
 * own, so that all of it can be undone. In the same transaction the commit becomes the newest of the default branch: of
 * two that were fetched at the same time, the second is compared anew with the first.
 */
export function createRepositoryConfig({ db, ids, observers, configure }: RepositoryConfigParts) {
  return async ({ holder }: Runner, report: FinishReport): Promise<ConfiguredReport> => {
    const { claim, outcome } = report;
    if (outcome.kind !== 'fetched') return report;
    const { commit, config } = outcome;
    try {
      const lines = await db.transaction(async (trx) => {
        const job = await holdJob(db, trx, claim);
        if (job?.holder !== holder) return []; // settling says so
        const requests = trx.selectFrom('build_requests').selectAll().where('id', '=', job.subject_id);
        const request = await requests.executeTakeFirst();
        if (!request) return [];
        await db.holdNumber(trx, request.project_id);
        const projects = trx.selectFrom('projects').selectAll().where('id', '=', request.project_id);
        const project = await projects.executeTakeFirstOrThrow();
        if (project.config_file === '') return [];
        if (!config)
          throw refused([`The runner is too old to read ${project.config_file}, which configures the project.`]);
        if (config.before !== (await defaultHeadOf({ trx }, project)))
          throw new Undone({ outcome: { kind: 'lost', message: 'the default branch was built meanwhile' } });
        if ('problem' in config) throw refused([config.problem]);
        // The commit is recorded last, but it is locked before the project (lifecycle/pending-effects.ts).
        const known = trx.selectFrom('commits').select('id').where('project_id', '=', project.id);
        const holdFirst = () => db.locked(known.where('ref', '=', commit.sha), 'commits').execute();
        const done = await configure(
          { db, trx, ids, observers },
          { project, request, sha: commit.sha, text: config.text, holdFirst },
        );
        if ('refused' in done) throw refused(done.refused);
        await recordCommit({ db, trx, ids, observers }, project.id, commit);
        return done.logLines;
      });
      return { ...report, lines };
    } catch (error) {
      if (!(error instanceof Undone)) throw error;
      return { ...report, ...error.report };
    }
  };
}

function refused(lines: string[]): Undone {
  const logLines = [...lines, 'Nothing was changed, and nothing is built.'];
  return new Undone({ outcome: { kind: 'unfetchable', reason: 'invalid_config' }, lines: logLines });
}
