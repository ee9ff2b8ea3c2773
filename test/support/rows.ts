import type { CallDeps } from '../../src/server/api/call.ts';
import type {
  ArtifactRow,
  BuildRow,
  CacheRow,
  CommitRow,
  WebhookDeliveryRow,
  DependencyRow,
  Schema,
} from '../../src/server/db/schema.ts';
import { insertForge } from '../../src/server/lifecycle/forges.ts';
import { receive } from '../../src/server/inbound-hooks/hook-deliveries.ts';
import { contentTypeOf } from '../../src/shared/lib/file-types.ts';
import { completeFacts } from '../../src/server/inbound-hooks/payload-readers.ts';

import { forgeToken } from './fake-forge.ts';

/** Records that only the service's own work creates, inserted directly in the same form. */

interface Named {
  id: bigint;
}

export async function addCommit(
  { db, ids }: CallDeps,
  project: Named,
  fields: Partial<CommitRow> = {},
): Promise<CommitRow> {
  const id = ids.next();
  const commit: CommitRow = {
    id,
    project_id: project.id,
    ref: id.toString(16).padStart(40, '0'),
    version: 1,
    build_state: 'waiting_for_builds',
    message: 'Mend the sluice\n\nIt leaked.',
    scm_author_name: 'Ada',
    scm_author_email: 'ada@example.org',
    scm_authored_date: '2026-03-01T10:00:00-05:00',
    scm_committer_name: 'Grace',
    scm_committer_email: 'grace@example.org',
    scm_committed_date: '2026-03-02T11:30:00+05:30',
    branches: '["main"]',
    tags: '[]',
    files: '["sluice.c"]',
    merge_of: '',
    branch: 'main',
    parent: '',
    tree: '',
    ...fields,
  };
  await db.transaction((trx) => trx.insertInto('commits').values(commit).execute());
  return commit;
}

export async function addBuild(
  { db, ids }: CallDeps,
  project: Named,
  parts: { commit: Named; buildRequest: Named; suite: Named & { name?: unknown } },
  fields: Partial<BuildRow> = {},
): Promise<BuildRow> {
  const build: BuildRow = {
    id: ids.next(),
    project_id: project.id,
    build_request_id: parts.buildRequest.id,
    commit_id: parts.commit.id,
    suite_id: parts.suite.id,
    suite_name: `${(parts.suite.name ?? parts.suite.id) as string | bigint}`,
    build_state: 'enqueued',
    attempt: 1,
    exit_status: null,
    failure_reason: '',
    created_at: BigInt(Date.now()),
    started_at: null,
    finished_at: null,
    variant: '',
    allow_failure: 0,
    retry: 0,
    retries_left: 0,
    series: 0n,
    steps: '',
    services: '[]',
    tests_passed: 0,
    tests_failed: 0,
    tests_skipped: 0,
    uploads: '',
    usage: '',
    output_from: null,
    output_to: null,
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
    counts: fields.deploy_id === undefined || fields.deploy_id === null ? 1 : 0,
    may_reuse: 0,
    reused_from_id: null,
    checks_id: null,
    ...fields,
  };
  await db.transaction((trx) => trx.insertInto('builds').values(build).execute());
  return build;
}

/** A file of a build, with this content. */
export async function addArtifact(
  { db, ids, blobs }: CallDeps,
  build: Named,
  path: string,
  content: string | Buffer = 'kept',
): Promise<ArtifactRow> {
  const bytes = typeof content === 'string' ? Buffer.from(content) : content;
  const { digest } = await blobs.put(
    (async function* whole() {
      yield bytes;
    })(),
  );
  const row = {
    id: ids.next(),
    build_id: build.id,
    path,
    size: BigInt(bytes.length),
    sha256: digest,
    content_type: contentTypeOf(path),
    created_at: BigInt(Date.now()),
  };
  await db.transaction((trx) => trx.insertInto('artifacts').values(row).execute());
  return row;
}

export async function addDelivery(
  { db, ids }: CallDeps,
  notification: Named,
  fields: Partial<WebhookDeliveryRow> = {},
): Promise<WebhookDeliveryRow> {
  const delivery: WebhookDeliveryRow = {
    id: ids.next(),
    notification_id: notification.id,
    event_type: 'build.passed',
    position: 0n,
    payload: '{}',
    state: 'failed',
    created_at: BigInt(Date.now()),
    since: BigInt(Date.now()),
    subject_id: null,
    ...fields,
  };
  await db.transaction((trx) => trx.insertInto('webhook_deliveries').values(delivery).execute());
  return delivery;
}

export async function addDeliveryAttempt(
  { db, ids }: CallDeps,
  delivery: Named,
  attempt: { status: number | null; answer: string; error?: string },
): Promise<void> {
  const base = { id: ids.next(), delivery_id: delivery.id, duration_ms: 12, created_at: BigInt(Date.now()), error: '' };
  const row = { ...base, ...attempt };
  await db.transaction((trx) => trx.insertInto('webhook_attempts').values(row).execute());
}

/** A forge that somebody has connected, at which nobody listens. */
export async function addForge({ db, ids, vault }: CallDeps, owner: { email: string }): Promise<{ id: bigint }> {
  const seen = { login: 'ada', may: 'null', state: 'connected', state_reason: '' } as const;
  return db.transaction(async (trx) => {
    const users = trx.selectFrom('users').select('id').where('email', '=', owner.email);
    const { id } = await users.executeTakeFirstOrThrow();
    const settings = { owner_id: id, provider: 'github', url: 'http://127.0.0.1:9' } as const;
    return insertForge({ trx, ids, vault }, settings, forgeToken, seen);
  });
}

/** A ping that arrived at a hook. */
export async function addHookDelivery({ db, ids, observers }: CallDeps, hook: Named): Promise<{ id: bigint }> {
  const facts = completeFacts({ event: 'ping', idle: 'A ping: the hook is set up.' });
  return db.transaction((trx) => receive({ db, trx, ids, observers }, hook.id, { key: null, facts }));
}

export async function setDependencyState(
  { db }: CallDeps,
  dependency: Named,
  state: DependencyRow['state'],
): Promise<void> {
  await db.transaction((trx) =>
    trx
      .updateTable('dependencies')
      .set({ state, shared: state === 'shared' ? 1 : 0 })
      .where('id', '=', dependency.id)
      .execute(),
  );
}

export async function addCache(
  { db, ids }: CallDeps,
  { project, suite }: { project: Named; suite: Named & { name?: unknown } },
  fields: Partial<CacheRow> = {},
): Promise<CacheRow> {
  const now = BigInt(Date.now());
  const cache: CacheRow = {
    id: ids.next(),
    project_id: project.id,
    suite_id: suite.id,
    suite_name: `${(suite.name ?? suite.id) as string | bigint}`,
    variant: '',
    branch: 'main',
    paths: '["node_modules"]',
    build_id: 1n,
    sha: 'c'.repeat(40),
    digest: ids.next().toString(16).padStart(64, '0'),
    size: 4096n,
    created_at: now,
    last_used_at: now,
    ...fields,
  };
  await db.transaction((trx) => trx.insertInto('caches').values(cache).execute());
  return cache;
}

/** Copies of the newest row of a table, each with an identifier of its own and with what differs. */
export async function copyRows(
  { db, ids }: CallDeps,
  table: keyof Schema,
  count: number,
  differing: (index: number, id: bigint) => Record<string, unknown>,
): Promise<bigint[]> {
  const query = db.read
    .selectFrom(table as 'suites')
    .selectAll()
    .orderBy('id', 'desc')
    .limit(1);
  const row = await query.executeTakeFirstOrThrow();
  const copies = Array.from({ length: count }, (_, index) => {
    const id = ids.next();
    return { ...row, id, ...differing(index, id) };
  });
  for (let from = 0; from < count; from += 500) {
    const some = copies.slice(from, from + 500);
    await db.transaction((trx) =>
      trx
        .insertInto(table as 'suites')
        .values(some)
        .execute(),
    );
  }
  return copies.map(({ id }) => id);
}
