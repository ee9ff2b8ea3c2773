import { createHash } from 'node:crypto';
import type { Runner } from '../auth/runners.ts';
import type { BuildRequestRow, ProjectRow } from '../db/schema.ts';
import { recordCommit } from '../lifecycle/commits.ts';
import type { ReadFile, SuiteOfFile } from '../lifecycle/file-suites.ts';
import { includedProject, noteIncludes, pinnedAs, type FetchedInclude, type Include } from '../lifecycle/includes.ts';
import { fetchedAs, ownRefs } from '../lifecycle/own-refs.ts';
import type { WriteContext } from '../lifecycle/write-context.ts';
import type { CommitReport, FinishReport, IncludedText, Outcome } from '../../shared/protocol/index.ts';
import { holdJob } from '../queue/leases.ts';
import { findLog } from '../streams/logs.ts';
import { isConfigured, defaultHeadOf } from './fetch-commit.ts';

type Refused = { refused: string[] };

export interface Configuring {
  /** Call outside of transactions, because a large file may take long. */
  read(file: {
    project: ProjectRow;
    text: string;
    included?: readonly { path: string; text: string }[];
  }): Promise<FoundFile | Refused>;
  close(): Promise<void>;
}

/** A valid file. These methods run in a transaction, which is undone if they refuse. */
export interface FoundFile {
  includes: readonly Include[];
  /** A line for the log about one of `includes`. */
  mistake: (index: number, what: string) => string;
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
  /** The file includes others, which the next try fetches too. */
  isAgain?: true;
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
    const byProject = { config_file: path, config_digest: '', includes: '[]', suites: [] };
    if (config?.path !== path) return { ...report, outcome: changedMeanwhile };
    if ('problem' in config) return { ...report, ...refused(commit, [config.problem]) };
    if ('isAbsent' in config) return { ...report, file: byProject };
    const project = { config_file: path, ...rest };
    const own = await configure.read({ project, text: config.text });
    if ('refused' in own) return { ...report, ...refused(commit, own.refused) };
    const included = await includedBy(own, { db, project, asked, texts: outcome.included });
    if ('isAgain' in included)
      return { ...report, isAgain: true, lines: [`Reading what ${path} includes of other projects.`] };
    if ('refused' in included) return { ...report, ...refused(commit, included.refused) };
    if ('outcome' in included) return { ...report, ...included };
    const { includes, texts } = included;
    const found = texts.length === 0 ? own : await configure.read({ project, text: config.text, included: texts });
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
        const withShas = includes.length === 0 ? '' : `\n${JSON.stringify(includes)}`;
        const digest = createHash('sha256').update(`${path}\n${config.text}${withShas}`).digest('hex');
        const taken = includes.map((one) => `Included ${one.path} of ${one.repository} at ${one.sha}.`);
        const file = { config_file: path, config_digest: digest, includes: JSON.stringify(includes), suites };
        return { file, lines: [...taken, ...told] };
      });
      return { ...report, ...result };
    } catch (error) {
      if (!(error instanceof Undone)) throw error;
      return { ...report, ...error.report };
    }
  };
}

interface Including extends Pick<WriteContext, 'db'> {
  project: ProjectRow;
  asked: BuildRequestRow;
  texts: readonly IncludedText[] | undefined;
}

interface Included {
  includes: FetchedInclude[];
  texts: { path: string; text: string }[];
}

/** Who owns the other projects, and what they allow, is checked again after the files were fetched. */
async function includedBy(
  { includes: wanted, mistake }: FoundFile,
  { db, project, asked, texts: fetched }: Including,
): Promise<Included | Refused | { isAgain: true } | { outcome: Outcome }> {
  if (wanted.length === 0) return { includes: [], texts: [] };
  const projects = await Promise.all(wanted.map((one) => includedProject(db.read, project, one)));
  const unknown = projects.flatMap((one, at) => (one ? [] : [mistake(at, notIncludable)]));
  if (unknown.length > 0) return { refused: unknown };
  const includes = pinnedAs(wanted, asked);
  if (JSON.stringify(includes) !== asked.includes) {
    await db.transaction((trx) => noteIncludes(trx, asked.id, includes));
    return { isAgain: true };
  }
  if (fetched?.length !== includes.length)
    return { outcome: { kind: 'lost', message: 'the included files were not fetched' } };
  const wrong = fetched.flatMap((one, at) => ('problem' in one ? [mistake(at, one.problem)] : []));
  if (wrong.length > 0) return { refused: wrong };
  const texts: Included['texts'] = [];
  const pinned = includes.map((one, at) => {
    const { sha = '', text = '' } = { ...fetched[at] } as { sha?: string; text?: string };
    texts.push({ path: one.path, text });
    return { ...one, sha };
  });
  await db.transaction((trx) => noteIncludes(trx, asked.id, pinned));
  return { includes: pinned, texts };
}

const notIncludable = 'names no other project of this account that allows it';

function refsOf(request: BuildRequestRow, { ref, ...commit }: CommitReport): string[] {
  const known = { branches: JSON.stringify(commit.branches), tags: JSON.stringify(commit.tags) };
  return ownRefs({ ...request, fetched_as: fetchedAs(request, known, ref) }, known);
}

const changedMeanwhile = { kind: 'lost', message: 'the project was changed meanwhile' } as const;

function refused({ sha }: { sha: string }, lines: string[]): ConfigResult {
  const told = [...lines, 'Nothing was changed, and nothing is built.'];
  return { outcome: { kind: 'unfetchable', reason: 'configuration_invalid' }, lines: told, sha };
}
