import { sql } from 'kysely';
import { openDatabase, type Database } from '../../src/server/db/open.ts';
import type { BuildRow, CommitRow } from '../../src/server/db/schema.ts';
import { onBoth, type Databases } from './databases.ts';
import { median, round, type Figure } from './report.ts';
import { call, startHeadrace, type Service } from './servers.ts';
import { signIn } from './signing-in.ts';

const projects = 500;
const commitsEach = 40;
const suitesEach = 4;
const rounds = 21;

/** The server's time for the dashboard of a user with five hundred projects, on each database. */
export async function dashboardFigures(databases: Databases): Promise<Figure[]> {
  const { sqlite, postgres } = await onBoth(databases, async (settings, name): Promise<Figure> => {
    const service = await startHeadrace(undefined, settings, { flags: ['--no-runner'] });
    try {
      await fill(service);
      const taken = await asked(service, await signIn(service));
      return {
        what: `dashboard with ${projects} projects on ${name}, ms of server time`,
        value: median(taken),
        limit: { atMost: 200 },
        from: `median of ${taken.length}, at most ${round(Math.max(...taken))} ms; ${projects * commitsEach} commits`,
      };
    } finally {
      await service.stop();
    }
  });
  return [sqlite, postgres];
}

/** From the request to the last byte of the page, over an open connection. */
async function asked({ url }: Service, cookie: string): Promise<number[]> {
  const taken: number[] = [];
  for (let round = 0; round <= rounds; round += 1) {
    const startedAt = performance.now();
    const answer = await fetch(`${url}/ui/`, { headers: { cookie } });
    const page = await answer.text();
    if (round > 0) taken.push(performance.now() - startedAt); // the first round warms up
    const shown = page.split('class="project"').length - 1;
    if (shown !== projects) throw new Error(`the dashboard shows ${shown} projects: ${answer.status}`);
  }
  return taken;
}

/** Writes rows directly into the database, because building all of it would take an hour. */
async function fill(service: Service): Promise<void> {
  const db = await openDatabase({ url: service.databaseUrl });
  let number = 1n;
  try {
    for (let at = 0; at < projects; at += 1) {
      const form = { name: `project ${at}`, repository_url: 'git@example.org:bench.git', description: 'one of many' };
      const project = await call<{ id_str: string }>(service, '/projects', form);
      number = await fillProject(db, BigInt(project.id_str), number);
    }
    // PostgreSQL does this automatically a minute after so many rows were written.
    if (db.kind === 'postgres') await sql`analyze`.execute(db.read);
  } finally {
    await db.close();
  }
}

const byAPerson = {
  trigger: '',
  event: '',
  pull_request: null,
  target_branch: '',
  from_fork: 0,
  approved: 0,
  sender: '',
  fetch_ref: '',
  fetched_as: '',
  asked_by: null,
  concurrency_group: '',
  priority: 0,
  trace: '',
  suites: '[]',
  suite_names: '[]',
  failure_reason: '',
  before: '',
  config_file: '',
  config_digest: '',
  includes: '[]',
  variables: '{}',
  deploy_id: null,
  join_key: '',
  joined_to_id: null,
  reuse: 1,
  head_sha: '',
  merge_base: '',
  started_at: 1_700_000_000_000n,
  finished_at: 1_700_000_061_000n,
};

const unheld = {
  needs: '[]',
  files_from: '',
  lent_from: '',
  lent_by: '[]',
  files_of: null,
  from_step: '',
  from_build: null,
  resume: 0,
  approval: 0,
  approvers: '[]',
  manual: 0,
  approved_by: '',
  asked_by: null,
  limited: '[]',
  withheld: '[]',
  step_commands: '[]',
  faults: 0,
  by_machine: 0,
  concurrency_group: '',
  priority: 0,
  held: '',
  deploy_id: null,
  counts: 1,
  may_reuse: 0,
  reused_from_id: null,
  checks_id: null,
};
const plain = { variant: '', allow_failure: 0, retry: 0, retries_left: 0, series: 0n, ...unheld };

async function fillProject(db: Database, projectId: bigint, from: bigint): Promise<bigint> {
  let number = from;
  const next = (): bigint => (number += 1n);
  const at = 1_700_000_000_000n;
  const owner = await db.read.selectFrom('users').select('id').executeTakeFirstOrThrow();
  const common = { project_id: projectId, build_state: 'passed' };
  const suites = Array.from({ length: suitesEach }, (_, index) => ({
    id: next(),
    project_id: projectId,
    name: `suite ${index}`,
    description: '',
    tags: '',
    image: '',
    root: null,
    builds_images: 0,
    id_tokens: '[]',
    api_token: 'none' as const,
    cache: '[]',
    cache_save: 'passed' as const,
    reuse: 'off' as const,
    inputs: '[]',
    ignore_variables: '[]',
    reuse_days: 30,
    uses_request: 0,
    annotations: '' as const,
    artifacts: '[]',
    needs: '[]',
    files_from_id: null,
    files_from_name: '',
    files_from: '[]',
    approval: 0,
    approvers: '[]',
    manual: 0,
    concurrency_group: '',
    priority: 0,
    gates_of_file: '',
    reports: '[]',
    command: 'true',
    steps: '[]',
    services: '[]',
    timeout: 0,
    allow_failure: 0,
    retries: 0,
    matrix: '[]',
    matrix_include: '[]',
    matrix_exclude: '[]',
    matrix_allow_failure: '[]',
    retry_on: '[]',
    resume: 0,
  }));
  const commits: CommitRow[] = [];
  const builds: BuildRow[] = [];
  const requests = Array.from({ length: commitsEach }, (_, index) => {
    const [commit, request] = [next(), next()];
    commits.push({
      ...common,
      id: commit,
      ref: commit.toString(16).padStart(40, '0'),
      version: 1,
      message: `Change number ${index}, in words that say what it is about\n\nAnd more of them.`,
      scm_author_name: 'Ada Lovelace',
      scm_author_email: 'ada@example.org',
      scm_authored_date: '2026-03-01T10:00:00Z',
      scm_committer_name: 'Ada Lovelace',
      scm_committer_email: 'ada@example.org',
      scm_committed_date: '2026-03-01T10:00:00Z',
      branches: '["main"]',
      tags: '[]',
      files: '["a"]',
      branch: 'main',
      tree: '',
      parent: '',
      merge_of: '',
    });
    for (const { id: suite } of suites) {
      const times = { created_at: at, started_at: at, finished_at: at + 61_000n };
      const result = { attempt: 1, exit_status: 0, failure_reason: '', ...plain };
      const empty = { uploads: '', usage: '', output_from: null, output_to: null };
      const counts = { tests_passed: 0, tests_failed: 0, tests_skipped: 0, steps: '', services: '[]', ...empty };
      const parts = { build_request_id: request, commit_id: commit, suite_id: suite, suite_name: String(suite) };
      builds.push({ ...common, id: next(), ...parts, ...result, ...times, ...counts });
    }
    const asked = { commit_ref: 'main', created_by: owner.id, created_at: at, fetch: 'done', branch: 'main' };
    return { ...common, id: request, commit_id: commit, ...asked, ...byAPerson };
  });
  await db.transaction(async (trx) => {
    await trx.insertInto('suites').values(suites).execute();
    await trx.insertInto('commits').values(commits).execute();
    await trx.insertInto('build_requests').values(requests).execute();
    await trx.insertInto('builds').values(builds).execute();
  });
  return number;
}
