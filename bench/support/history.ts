import { sql, type RawBuilder } from 'kysely';
import { openDatabase, type Transaction } from '../../src/server/db/open.ts';
import { call, type Service } from './servers.ts';

const accounts = 5;
const projectsEach = 10;
export const suitesEach = 4;
/** The states of a build. */
const steps = 3;
const projects = accounts * projectsEach;

/** The number of builds for this number of commits in each project. */
export function buildsWith(commitsEach: number): number {
  return commitsEach * projects * suitesEach;
}

/*
 * Each kind of record has its own range of numbers. Projects take turns, as in a busy installation: the commits of one
 * project are not next to each other.
 */
const [requestsFrom, commitsFrom, buildsFrom, eventsFrom] = [
  1_000_000_000, 2_000_000_000, 3_000_000_000, 4_000_000_000,
];

/**
 * Makes the data of an installation after some years: several accounts, each with projects of four suites. Each commit
 * has its request, builds, logs and events. The first account is the first user. Rows are written directly into the
 * database, a table at a time, because building all of it would take days.
 */
export async function makeHistory(service: Service, commitsEach: number): Promise<void> {
  for (let number = 0; number < projectsEach; number += 1) {
    const form = { name: `own project ${number}`, repository_url: 'git@example.org:bench.git' };
    await call(service, '/projects', form);
  }
  const db = await openDatabase({ url: service.databaseUrl });
  try {
    await db.transaction(async (trx) => {
      // All references are right, so PostgreSQL need not check each of them.
      if (db.kind === 'postgres') await sql`set local session_replication_role = replica`.execute(trx);
      await addOthers(trx);
      await addBuilds(trx, commitsEach);
    });
    // PostgreSQL does this automatically a minute after so many rows were written.
    if (db.kind === 'postgres') await sql`vacuum analyze`.execute(db.read);
  } finally {
    await db.close();
  }
}

/** A table of whole numbers from 0 on. */
function numbers(count: number): RawBuilder<unknown> {
  return sql`(
    with recursive counted (number) as (
      select 0 union all select number + 1 from counted where number + 1 < ${sql.lit(count)}
    ) select number from counted
  ) as counted`;
}

/** The projects as a table, with positions from 0 on. */
const placed = sql`(select id, owner_id, row_number() over (order by id desc) - 1 as place from projects) as placed`;
const passedAt = sql.lit(1_700_000_000_000n);

async function addOthers(trx: Transaction): Promise<void> {
  await sql`
    insert into users (id, email, kind, suspended, billing, created_at)
    select number + 1, 'person-' || number || '@example.org', 'user', 0, 'paid', ${passedAt}
    from ${numbers(accounts - 1)}`.execute(trx);
  // Copied keys do not open in another row, but these are never used.
  await sql`
    insert into projects (id, owner_id, name, description, repository_url, clone_url, build_state, ssh_public_key, ssh_private_key,
      created_at, last_event)
    select number + 1, number % ${sql.lit(accounts - 1)} + 1, 'project ' || number, description, repository_url, clone_url, 'passed',
      ssh_public_key, ssh_private_key, created_at, 0
    from projects, ${numbers(projects - projectsEach)} where projects.id = (select max(id) from projects)`.execute(trx);
  await sql`
    insert into suites (id, project_id, name, description, command)
    select place * ${sql.lit(suitesEach)} + number + 1, placed.id, 'suite ' || number, '', 'true'
    from ${placed}, ${numbers(suitesEach)}`.execute(trx);
}

async function addBuilds(trx: Transaction, commitsEach: number): Promise<void> {
  const [perCommit, perBuild] = [sql.lit(suitesEach), sql.lit(steps)];
  await sql`
    insert into commits (id, project_id, ref, version, build_state, message, scm_author_name, scm_author_email,
      scm_authored_date, scm_committer_name, scm_committer_email, scm_committed_date, branches, tags, files, branch)
    select ${sql.lit(commitsFrom)} + number, placed.id, ${sha}, 1, 'passed',
      'Change number ' || number || ', in words that say what it is about', 'Ada Lovelace', 'ada@example.org',
      '2026-03-01T10:00:00Z', 'Ada Lovelace', 'ada@example.org', '2026-03-01T10:00:00Z', '["main"]', '[]', '["a"]', 'main'
    from ${numbers(commitsEach * projects)} join ${placed} on place = number % ${sql.lit(projects)}`.execute(trx);
  await sql`
    insert into build_requests (id, project_id, commit_ref, commit_id, build_state, created_by, created_at, "fetch", branch)
    select commits.id + ${sql.lit(requestsFrom - commitsFrom)}, project_id, 'main', commits.id, 'passed', owner_id,
      ${passedAt}, 'done', 'main'
    from commits join projects on projects.id = project_id`.execute(trx);
  await sql`
    insert into builds (id, project_id, build_request_id, commit_id, suite_id, suite_name, build_state, attempt, exit_status,
      failure_reason, created_at, started_at, finished_at)
    select ${sql.lit(buildsFrom)} + (commits.id - ${sql.lit(commitsFrom)}) * ${perCommit} + (suites.id - 1) % ${perCommit},
      suites.project_id, commits.id + ${sql.lit(requestsFrom - commitsFrom)}, commits.id, suites.id, suites.name, 'passed', 1, 0, '',
      ${passedAt}, ${passedAt}, ${passedAt} + 61000
    from commits join suites on suites.project_id = commits.project_id order by commits.id, suites.id`.execute(trx);
  await sql`
    insert into logs (id, project_id, size, complete, completed_at, line_breaks)
    select id, project_id, 0, 1, created_at, 0 from build_requests
    union all select id, project_id, 0, 1, created_at, 0 from builds`.execute(trx);
  // For each build: queued, running and passed.
  const before = sql`(builds.id - ${sql.lit(buildsFrom)})`;
  await sql`
    insert into events (id, project_id, sequence, subject_id, type, state, created_at)
    select ${sql.lit(eventsFrom)} + ${before} * ${perBuild} + number, project_id,
      (${before} / ${sql.lit(projects * suitesEach)} * ${perCommit} + ${before} % ${perCommit}) * ${perBuild} + number + 1,
      builds.id, 'build', case number when 0 then 'enqueued' when 1 then 'running' else 'passed' end, created_at
    from builds, ${numbers(steps)} order by builds.id, number`.execute(trx);
  await sql`update projects set last_event = ${sql.lit(commitsEach * suitesEach * steps)}`.execute(trx);
}

/** Forty digits. */
const sha = sql`substr('0000000000000000000000000000000000000000' || number, length('' || number) + 1)`;
