import { createHash } from 'node:crypto';
import type { Runner } from '../auth/runners.ts';
import type { BuildRequestRow, ProjectRow } from '../db/schema.ts';
import { recordCommit } from '../lifecycle/commits.ts';
import type { ReadFile, SuiteOfFile } from '../lifecycle/file-suites.ts';
import { fetchedAs, ownRefs } from '../lifecycle/own-refs.ts';
import type { WriteContext } from '../lifecycle/write-context.ts';
import type { CommitReport, FinishReport } from '../../shared/protocol/index.ts';
import { holdJob } from '../queue/leases.ts';
import { findLog } from '../streams/logs.ts';
import { isConfigured, defaultHeadOf } from './fetch-commit.ts';

type Refused = { refused: string[] };

export interface Configuring {
  /** Call outside of transactions, because a large file may take long. */
  read(file: { project: ProjectRow; text: string }): Promise<FoundFile | Refused>;
  close(): Promise<void>;
}

/** A valid file. These methods run in a transaction, which is undone if they refuse. */
export interface FoundFile {
  /** The suites, if the project may build them. */
  suites(context: WriteContext): Promise<SuiteOfFile[] | Refused>;
  /** Returns lines for the log. */
  apply(
    context: WriteContext,
    about: { request: BuildRequestRow; sha: string; refs: readonly string[]; holdFirst: () => Promise<unknown> },
  ): Promise<string[] | Refused>;
}

/** The report after the file was read, with lines for the log. */
export interface ConfiguredReport extends FinishReport {
  lines?: string[];
  file?: ReadFile;
  /** Set if the commit's file was refused. */
  sha?: string;
}

type ConfigResult = Omit<ConfiguredReport, keyof FinishReport> & Partial<Pick<FinishReport, 'outcome'>>;

class Undone extends Error {
  readonly report: ConfigResult;

  constructor(report: ConfigResult) {
    super('nothing is applied');
    this.report = report;
  }
}

export interface RepositoryConfigParts extends Omit<WriteContext, 'trx'> {
  configure: Configuring;
}

/**
 * If the commit becomes the default branch's newest, its file is applied to the project in one transaction, which can
 * be undone. Of two commits fetched at the same time, the second is compared again with the first.
 */
export function createRepositoryConfig({ db, ids, observers, configure }: RepositoryConfigParts) {
  return async ({ holder }: Runner, report: FinishReport): Promise<ConfiguredReport> => {
    const { claim, outcome, logSize } = report;
    if (outcome.kind !== 'fetched') return report;
    const { commit, config } = outcome;
    const requests = db.read.selectFrom('jobs').innerJoin('build_requests', 'build_requests.id', 'jobs.subject_id');
    const asked = await requests
      .selectAll('build_requests')
      .where('jobs.claim', '=', claim)
      .where('jobs.holder', '=', holder)
      .executeTakeFirst();
    if (!asked) return report; // settling reports it
    const projects = db.read.selectFrom('projects').selectAll().where('id', '=', asked.project_id);
    const { config_file: path, ...rest } = await projects.executeTakeFirstOrThrow();
    if (!isConfigured({ config_file: path, ...rest }, asked, commit)) return report;
    const byProject = { config_file: path, config_digest: '', suites: [] };
    if (config?.path !== path) return { ...report, outcome: changedMeanwhile };
    if ('problem' in config) return { ...report, ...refused(commit, [config.problem]) };
    if ('isAbsent' in config) return { ...report, file: byProject };
    const found = await configure.read({ project: { config_file: path, ...rest }, text: config.text });
    if ('refused' in found) return { ...report, ...refused(commit, found.refused) };
    try {
      const result = await db.transaction(async (trx): Promise<ConfigResult> => {
        const job = await holdJob(db, trx, claim);
        const log = await findLog(trx, asked.id);
        const isOver = job?.cancelled === 0 && Number(log?.size ?? 0n) === logSize;
        if (job?.holder !== holder || !isOver) return {}; // settling reports it
        const context = { db, trx, ids, observers };
        await db.holdRight(trx, 'recording', asked.project_id);
        const project = await trx
          .selectFrom('projects')
          .selectAll()
          .where('id', '=', asked.project_id)
          .executeTakeFirstOrThrow();
        if (project.config_file !== path) throw new Undone({ outcome: changedMeanwhile });
        const isNewest = commit.defaultHead === 'this' && asked.pull_request === null;
        if (isNewest && config.before !== (await defaultHeadOf({ trx }, project)))
          throw new Undone({ outcome: { kind: 'lost', message: 'the default branch was built meanwhile' } });
        // The commit is recorded last, but it is locked before the project (db/lock-order.ts).
        const known = trx.selectFrom('commits').select('id').where('project_id', '=', project.id);
        const holdFirst = () => db.locked(known.where('ref', '=', commit.sha), 'commits').execute();
        const told = isNewest
          ? await found.apply(context, { request: asked, sha: commit.sha, refs: refsOf(asked, commit), holdFirst })
          : [];
        if ('refused' in told) throw new Undone(refused(commit, told.refused));
        const suites = await found.suites(context);
        if ('refused' in suites) throw new Undone(refused(commit, suites.refused));
        if (isNewest) await recordCommit(context, project.id, commit);
        const digest = createHash('sha256').update(`${path}\n${config.text}`).digest('hex');
        return { file: { config_file: path, config_digest: digest, suites }, lines: told };
      });
      return { ...report, ...result };
    } catch (error) {
      if (!(error instanceof Undone)) throw error;
      return { ...report, ...error.report };
    }
  };
}

function refsOf(request: BuildRequestRow, { ref, ...commit }: CommitReport): string[] {
  const known = { branches: JSON.stringify(commit.branches), tags: JSON.stringify(commit.tags) };
  return ownRefs({ ...request, fetched_as: fetchedAs(request, known, ref) }, known);
}

const changedMeanwhile = { kind: 'lost', message: 'the project was changed meanwhile' } as const;

function refused({ sha }: { sha: string }, lines: string[]): ConfigResult {
  const told = [...lines, 'Nothing was changed, and nothing is built.'];
  return { outcome: { kind: 'unfetchable', reason: 'configuration_invalid' }, lines: told, sha };
}
