import { insertRows } from '../../src/server/db/insert.ts';
import type { Database } from '../../src/server/db/open.ts';
import { sealedLocation, type Schema } from '../../src/server/db/schema.ts';
import { largestId } from '../../src/shared/lib/ids.ts';
import type { Vault } from '../../src/shared/lib/vault.ts';

const awkward = 'line\nbreak "quotes" \\ back \t tab \u2028 ünï 😀 {"end":1}';
const user = largestId; // more than a double can hold
const project = largestId - 1n;
const suite = largestId - 2n;
const commit = 9_007_199_254_740_993n;

/** One row or more in every table, with values that are easy to get wrong. */
export async function fillTables(db: Database, vault: Vault): Promise<void> {
  const seal = (place: Parameters<typeof sealedLocation>[0], id: bigint): string =>
    vault.seal(`secret of ${sealedLocation(place, id)}`, sealedLocation(place, id));
  const requests = Array.from({ length: 1000 }, (_, at) => ({
    id: BigInt(at + 1),
    project_id: project,
    commit_ref: `${awkward} ${at}`,
    commit_id: at % 2 === 0 ? commit : null,
    build_state: 'enqueued',
    created_by: user,
    created_at: BigInt(at),
    fetch: at % 2 === 0 ? 'done' : 'waiting',
    branch: at % 2 === 0 ? awkward : '',
    trigger: 'poll',
    event: 'push',
    pull_request: at % 2 === 0 ? commit : null,
    target_branch: awkward,
    from_fork: at % 2,
    approved: at % 2,
    sender: awkward,
    fetch_ref: awkward,
    fetched_as: awkward,
    asked_by: user,
    concurrency_group: awkward,
    priority: -3,
    trace: awkward,
    suites: '["9223372036854775807"]',
    suite_names: '["unit"]',
    failure_reason: awkward,
    before: 'none',
    config_file: awkward,
    config_digest: awkward,
    includes: '[]',
    variables: JSON.stringify({ AWKWARD: awkward }),
    deploy_id: at % 2 === 0 ? largestId : null,
    join_key: awkward,
    joined_to_id: at % 2 === 0 ? largestId : null,
    reuse: at % 2,
    head_sha: at % 2 === 0 ? 'e'.repeat(40) : '',
    merge_base: at % 2 === 0 ? 'd'.repeat(40) : '',
    started_at: at % 2 === 0 ? largestId : null,
    finished_at: at % 2 === 0 ? largestId : null,
  }));
  await db.transaction(async (trx) => {
    const put = <T extends keyof Schema>(table: T, ...rows: Schema[T][]): Promise<void> =>
      insertRows(trx, table, rows as never);
    const named = { name: awkward, description: '', command: awkward };
    await put('users', {
      id: user,
      email: 'a@example.org',
      password_hash: null,
      api_key_hash: '',
      kind: 'user',
      suspended: 1,
      billing: 'ok',
      created_at: 0n,
      operator: 1,
      news: 1,
      by_invitation: 1,
      password_by_link: 1,
      asks_passkey: 1,
      shut_out: 'group',
    });
    await put('forges', {
      id: largestId,
      owner_id: user,
      provider: 'gitea',
      url: 'https://forge.example.org/x',
      token: seal({ table: 'forges', column: 'token' }, largestId),
      login: awkward,
      may: '["read"]',
      state: 'connected',
      state_reason: awkward,
      checked_at: 1n,
      created_at: 1n,
      deleted_at: null,
      held_until: 2n,
    });
    await put('forge_removals', {
      id: 1n,
      forge_id: largestId,
      repository: awkward,
      public_key: awkward,
      hook_url: awkward,
      created_at: 1n,
      run_after: 2n,
      tries: 3,
    });
    await put('projects', {
      id: project,
      owner_id: user,
      name: awkward,
      description: '',
      repository_url: 'g@h:p',
      clone_url: 'https://h/p',
      build_state: 'new',
      ssh_public_key: seal({ table: 'projects', column: 'ssh_public_key' }, project),
      ssh_private_key: seal({ table: 'projects', column: 'ssh_private_key' }, project),
      created_at: 1n,
      last_event: 2n,
      default_head_id: commit,
      poll_interval: 15,
      fork_builds: 'never',
      cancel_superseded: 'running',
      public_badge: 1,
      config_file: awkward,
      branch_secrets: 1,
      report_left_out: 0,
      build_twice: 1,
      comment_commands: 1,
      pull_request_notes: 'on',
      pull_request_builds: 'merge',
      parameters: '[]',
      most_priority: 7,
      includable: 0,
      default_branch: awkward,
      passed_since: null,
      failed_since: 3n,
      forge_id: largestId,
      forge_repository: awkward,
      forge_repository_id: awkward,
      forge_git_origin: awkward,
      forge_state: 'incomplete',
      forge_state_reason: awkward,
      forge_check_at: 4n,
      forge_mends: 1,
      forge_held_until: 5n,
      public: 1,
      offered_to_id: user,
      offered_by_id: user,
    });
    await put('project_documents', { project_id: project, document: awkward });
    await put('collaborators', { id: 1n, project_id: project, user_id: user, created_at: 2n });
    await put('suites', {
      id: suite,
      project_id: project,
      ...named,
      steps: JSON.stringify([{ name: awkward, command: awkward, when: 'always' }]),
      services: JSON.stringify([{ name: 'db', image: awkward, command: awkward }]),
      tags: 'arm,gpu',
      image: awkward,
      root: 0,
      builds_images: 1,
      api_token: 'write',
      id_tokens: JSON.stringify([{ variable: 'A', audience: awkward }]),
      cache: '["~/x"]',
      cache_save: 'always',
      reuse: 'on',
      inputs: JSON.stringify([awkward]),
      ignore_variables: '["A"]',
      reuse_days: 7,
      uses_request: 1,
      annotations: 'compiler',
      timeout: 60,
      allow_failure: 1,
      retries: 3,
      retry_on: JSON.stringify([`log:${awkward}`]),
      resume: 1,
      matrix: '["A=1,2"]',
      matrix_include: '["A=3 B=x"]',
      matrix_exclude: '["A=2"]',
      matrix_allow_failure: '["B=x"]',
      artifacts: JSON.stringify([awkward]),
      needs: JSON.stringify([String(largestId)]),
      files_from_id: largestId,
      files_from_name: `${awkward}$X`,
      files_from: JSON.stringify([String(largestId), `${awkward}$X`]),
      approval: 1,
      approvers: JSON.stringify([awkward]),
      manual: 1,
      concurrency_group: awkward,
      priority: 4,
      gates_of_file: 'approval',
      reports: JSON.stringify([awkward]),
    });
    const cached = {
      project_id: project,
      suite_id: suite,
      suite_name: awkward,
      variant: awkward,
      branch: awkward,
      paths: '["~/x"]',
    };
    const tree = { build_id: 1n, sha: 'c'.repeat(40), digest: 'a'.repeat(64), size: largestId };
    await put('caches', { id: 1n, ...cached, ...tree, created_at: 1n, last_used_at: 2n });
    const ofService = {
      service: 'db',
      tree: largestId,
      made_of: 'd'.repeat(64),
      has_secrets: 1,
      build_id: 1n,
      size: 7n,
    };
    const its = { id: 2n, project_id: project, suite_id: suite, branch: awkward };
    await put('service_data', { ...its, ...ofService, created_at: 1n, last_used_at: 2n });
    await put('suite_rules', {
      id: 1n,
      suite_id: suite,
      subject: 'commit.message',
      operator: 'contains',
      value: awkward,
    });
    const variables = [1n, 2n, 3n].map((id) => ({
      id,
      project_id: null,
      suite_id: suite,
      organisation_id: null,
      name: `V${id}`,
      content: seal({ table: 'environment_variables', column: 'content' }, id),
      secret: 1,
      refs: JSON.stringify([awkward]),
      from_env: awkward,
    }));
    await put('environment_variables', ...variables);
    const dependency = { owner_id: user, ...named, prefix: '/srv/x', source: '', launch_command: '', state: 'shared' };
    const archive = { archive_content_type: null, archive_file_size: null, created_at: 3n };
    const compile = { archive: null, archive_kind: null, result: null, result_prefix: '', compile_prefix: '' };
    const rest = { ...archive, ...compile, shared: 0, last_event: 0n, image: awkward };
    await put('dependencies', { id: 1n, ...dependency, ...rest });
    await put('dependencies', { id: 2n, ...dependency, ...rest, name: 'other', archive_file_size: largestId });
    await put('registries', {
      id: 1n,
      owner_id: user,
      host: 'registry.example.org:5000',
      username: awkward,
      password: seal({ table: 'registries', column: 'password' }, 1n),
      created_at: 1n,
    });
    await put('dependency_events', { dependency_id: 1n, sequence: 1n, state: 'shared', created_at: 3n });
    const upload = { id: 1n, dependency_id: 1n, size: largestId, received: 2n, complete: 1, created_at: largestId };
    await put('archive_uploads', upload);
    await put('archive_parts', { upload_id: 1n, position: 2n, digest: 'e'.repeat(64) });
    await put('dependency_relations', { id: 1n, dependency_id: 1n, related_id: 2n });
    await put('dependency_relations', { id: 2n, dependency_id: 2n, related_id: 1n });
    await put('suite_dependencies', { id: 1n, suite_id: suite, dependency_id: 1n });
    const pinned = {
      dependency_id: 2n,
      name: awkward,
      digest: 'a'.repeat(64),
      prefix: '/srv/x',
      launch_command: awkward,
    };
    await put('dependency_pins', { suite_dependency_id: 1n, relation_id: null, position: 0, ...pinned, digest: null });
    await put('dependency_pins', { suite_dependency_id: 1n, relation_id: null, position: 1, ...pinned });
    await put('dependency_pins', { suite_dependency_id: null, relation_id: 2n, position: 0, ...pinned });
    const branches = {
      repository_url: 'g@h:p',
      clone_url: 'ssh://g@h:22/p',
      local_branch: 'main',
      remote_branch: 'main',
      suite_id: suite,
      refs: JSON.stringify([awkward]),
      approval: 1,
      approvers: JSON.stringify([awkward]),
    };
    await put('deploy_strategies', { id: 1n, project_id: project, name: 'n', strategy_type: 'git', ...branches });
    const person = { scm_author_name: awkward, scm_author_email: 'e', scm_authored_date: '2026-01-01T00:00:00+05:30' };
    await put('commits', {
      id: commit,
      project_id: project,
      ref: 'f'.repeat(40),
      version: 1,
      build_state: 'passed',
      message: awkward,
      ...person,
      scm_committer_name: '',
      scm_committer_email: '',
      scm_committed_date: '',
      branches: '[]',
      tags: '[]',
      files: '[]',
      branch: awkward,
      parent: '',
      tree: '',
      merge_of: 'e'.repeat(40),
    });
    await put('build_requests', ...requests);
    await put('request_changes', { build_request_id: 1n, base: '', compared_with: awkward, files: '[]' });
    const said = { settings: '{}', rules: '[]', dependencies: '[]' };
    await put('file_suites', { id: 1n, project_id: project, digest: awkward, name: awkward, ...said });
    await put('builds', {
      id: 1n,
      project_id: project,
      build_request_id: 1n,
      commit_id: commit,
      suite_id: suite,
      suite_name: awkward,
      build_state: 'failed',
      attempt: 1,
      exit_status: -1,
      failure_reason: '',
      created_at: 1n,
      started_at: null,
      finished_at: 2n,
      variant: 'A=1',
      allow_failure: 1,
      retry: 1,
      retries_left: 2,
      series: largestId,
      tests_passed: 1,
      tests_failed: 2,
      tests_skipped: 3,
      uploads: 'pending',
      usage: '{"cpuMs":1}',
      output_from: 0n,
      output_to: largestId,
      steps: JSON.stringify([{ name: awkward, state: 'waiting' }]),
      services: JSON.stringify([{ name: 'db', state: 'ready', log: '1' }]),
      needs: JSON.stringify([awkward]),
      files_from: awkward,
      lent_from: `\n${awkward}\n`,
      lent_by: JSON.stringify([String(largestId)]),
      files_of: largestId,
      from_step: awkward,
      from_build: largestId,
      resume: 1,
      approval: 1,
      approvers: JSON.stringify([awkward]),
      manual: 0,
      approved_by: awkward,
      asked_by: user,
      limited: JSON.stringify([awkward]),
      withheld: JSON.stringify([awkward]),
      step_commands: JSON.stringify([awkward]),
      faults: 1,
      by_machine: 1,
      concurrency_group: awkward,
      priority: 4,
      held: 'needs',
      deploy_id: largestId,
      counts: 0,
      may_reuse: 1,
      reused_from_id: largestId,
      checks_id: largestId,
    });
    const job = { subject_id: 1n, account_id: user, tries: 1, run_after: 0n, cancelled: 0, priority: 5, tags: 'gpu' };
    const free = {
      lane: null,
      claim: null,
      holder: null,
      claimed_until: null,
      named_blobs: null,
      stored_blob: null,
      stored_bytes: null,
      location: null,
      tried_by: null,
    };
    await put('jobs', { id: 1n, kind: 'run_suite', ...job, ...free });
    const blobs = { named_blobs: JSON.stringify(['f'.repeat(64)]), stored_blob: 'e'.repeat(64), stored_bytes: 7n };
    const held = {
      lane: awkward,
      claim: 'c',
      holder: 'h',
      claimed_until: largestId,
      ...blobs,
      location: awkward,
      tried_by: awkward,
    };
    await put('jobs', { id: 2n, kind: 'fetch_commit', ...job, ...held });
    await put('queue_turns', { account_id: user, turn: largestId });
    const event = { project_id: project, subject_id: 1n, type: 'build', created_at: 1n };
    await put('events', { id: 1n, sequence: 1n, state: 'enqueued', ...event });
    await put('events', { id: 2n, sequence: 2n, state: 'failed', ...event });
    const everyByte = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));
    const counted = { line_breaks: 2n, line_state: '[1,"",0,"\\u0000",1]', began_at: 1n, said_at: 2n };
    const silent = { line_breaks: 0n, line_state: null, began_at: null, said_at: null };
    const live = { size: 512n, complete: 0, blob: null, completed_at: null };
    await put('logs', { id: 1n, project_id: project, ...live, ...counted });
    const packed = { size: 9n, complete: 1, blob: 'f'.repeat(64), completed_at: 1n };
    await put('logs', { id: 2n, project_id: null, ...packed, ...silent });
    await put('log_marks', { log_id: 1n, line_breaks: 1n, start: 256n, at: 1n, line_state: '' });
    await put('test_runs', {
      build_id: 1n,
      project_id: project,
      suite_name: awkward,
      commit_id: commit,
      size: 1,
      bytes: 2n,
      passed: 1,
      failed: 2,
      skipped: 3,
      slowest: JSON.stringify([[1, awkward, '', '']]),
      completed_at: 3n,
    });
    await put('test_results', {
      build_id: 1n,
      start: 0,
      state: 'failed',
      count: 1,
      keys: everyByte,
      content: everyByte,
    });
    await put('test_flakes', {
      project_id: project,
      suite_name: awkward,
      commit_id: commit,
      variant: awkward,
      test_key: commit,
      name: awkward,
      class: awkward,
      suite: awkward,
      failures: 1,
      passes: 2,
      message: awkward,
      failed_build_id: 1n,
      began_at: 1n,
      last_seen_at: 2n,
    });
    await put('log_indexes', {
      log_id: 2n,
      bytes: everyByte,
      outline: awkward,
      annotations: awkward,
      filter: everyByte,
      line_hashes: everyByte,
    });
    await put('log_chunks', { log_id: 1n, start: 0n, bytes: everyByte });
    const file = { size: largestId, sha256: 'c'.repeat(64), content_type: 'text/plain' };
    await put('build_summaries', { build_id: 1n, markdown: awkward });
    await put('artifacts', { id: 1n, build_id: 1n, path: awkward, ...file, created_at: 1n });
    const waiting = { claim: 'c', holder: 'h', account_id: user, created_at: 1n };
    await put('uploads', { id: 1n, ...waiting, stored_blob: 'e'.repeat(64), stored_bytes: largestId });
    await put('doomed_blobs', {
      digest: 'd'.repeat(64),
      remove_after: largestId,
      account_id: 1n,
      claim: 'c',
      bytes: largestId,
    });
    const seen = { created_at: 1n, expires_at: largestId, client_seen_at: 1n, runner_seen_at: 2n };
    const shell = { project_id: project, location: awkward };
    const slow = { suite_id: suite, variant: awkward, branch: awkward, step: awkward, commit_id: commit };
    await put('slow_steps', { id: 1n, project_id: project, ...slow, median_ms: 1, is_quiet: 1 });
    await put('kept_builds', {
      id: 1n,
      ...shell,
      holder: awkward,
      name: awkward,
      key: seal({ table: 'kept_builds', column: 'key' }, 1n),
      expires_at: largestId,
      for_suites: 1,
      free_since: largestId,
      digest: 'e'.repeat(64),
      size: largestId,
      packable: 1,
    });
    await put('step_points', {
      id: 1n,
      project_id: project,
      tree: largestId,
      digest: 'e'.repeat(64),
      size: largestId,
      step: awkward,
      facts: seal({ table: 'step_points', column: 'facts' }, 1n),
    });
    await put('shells', {
      id: 1n,
      ...shell,
      build_id: 1n,
      account_id: user,
      via: 'token',
      state: 'open',
      reason: '',
      ...seen,
      sees_limited: 1,
    });
    await put('log_chunks', { log_id: 1n, start: 256n, bytes: everyByte.toReversed() });
    await put('polls', {
      project_id: project,
      account_id: user,
      host: awkward,
      next_poll_at: largestId,
      wait_ms: 1n,
      claim: awkward,
      holder: null,
      last_polled_at: null,
      outcome: 'failed',
      reason: awkward,
      failures: 3,
    });
    await put('polled_refs', { project_id: project, digest: '', refs: Buffer.from([0, 255, 10]) });
    await put('schedules', {
      id: 1n,
      project_id: project,
      cron: '* * * * *',
      time_zone: 'UTC',
      commit_ref: awkward,
      variables: '{}',
      reuse: 1,
      created_at: 1n,
      next_run_at: largestId,
      last_run_at: null,
      outcome: '',
      reason: awkward,
      build_request_id: commit,
    });
    await put('connection_checks', {
      id: 1n,
      project_id: project,
      created_at: 1n,
      answer: awkward,
      workflows: awkward,
    });
    await put('target_heads', { id: 1n, project_id: project, branch: awkward, sha: 'd'.repeat(40) });
    await put('built_refs', { id: 1n, project_id: project, name: 'refs/heads/main', commit_id: commit });
    await put('runners', {
      id: 1n,
      name: awkward,
      token_hash: 'h',
      created_at: 1n,
      revoked_at: null,
      draining: 1,
    });
    await put('runner_heartbeats', {
      holder: 'h',
      runner_id: 1n,
      seen_at: 2n,
      version: '0.1.0',
      trouble: awkward,
      tags: 'gpu',
      slots: 3,
    });
    await put('runner_accounts', { id: 1n, runner_id: 1n, account_id: user });
    const times = { started_at: null, finished_at: null };
    await put('deploys', {
      id: 1n,
      project_id: project,
      deploy_strategy_id: 1n,
      commit_id: commit,
      state: 'enqueued',
      created_by: user,
      ...times,
      clone_url: 'git@x:y.git',
      local_branch: 'main',
      remote_branch: awkward,
      suite_id: largestId,
      approvers: JSON.stringify([awkward]),
      approved_by: awkward,
    });
    await put('notifications', {
      id: 1n,
      project_id: project,
      name: 'webhook',
      notifiable_type: 'build',
      url: 'https://x/',
      secret: seal({ table: 'notifications', column: 'secret' }, 1n),
      on: 'changes',
      branches: JSON.stringify([awkward]),
      last_position: 1n,
      repository: awkward,
      forge_id: largestId,
    });
    const outcome = { subject: awkward, outcome: 'failed' as const, request_id: largestId };
    await put('notification_outcomes', { id: 1n, notification_id: 1n, ...outcome });
    const delivery = { id: 1n, notification_id: 1n, event_type: 'ping', payload: awkward, state: 'pending' };
    await put('webhook_deliveries', { ...delivery, position: 1n, created_at: 1n, since: 1n, subject_id: largestId });
    await put('webhook_attempts', {
      id: 1n,
      delivery_id: 1n,
      status: null,
      duration_ms: 5,
      answer: awkward,
      error: '',
      created_at: 1n,
    });
    await put('pull_request_notes', {
      notification_id: 1n,
      pull_request: largestId,
      remote_id: awkward,
      sha: awkward,
      text_hash: awkward,
    });
    await put('hooks', {
      id: 1n,
      project_id: project,
      provider: 'gitlab',
      events: 'push,tag',
      secret: seal({ table: 'hooks', column: 'secret' }, 1n),
      created_at: 1n,
      forge_url: awkward,
    });
    await put('hook_deliveries', {
      id: largestId,
      hook_id: 1n,
      delivery_key: awkward,
      received_at: 1n,
      facts: awkward,
      outcome: 'build_requested',
      reason: awkward,
      build_request_id: 1n,
      results: '[]',
    });
    await put('idempotency_keys', {
      id: 1n,
      user_id: user,
      key: 'k',
      request_hash: 'h',
      status: 201,
      answer: seal({ table: 'idempotency_keys', column: 'answer' }, 1n),
      created_at: BigInt(Date.now()),
    });
    const expiring = { user_id: user, expires_at: largestId };
    await put('oauth_clients', {
      id: 1n,
      owner_id: user,
      name: awkward,
      redirect_uris: JSON.stringify([awkward]),
      secret_hash: null,
      created_at: 1n,
      document_url: awkward,
    });
    await put('oauth_codes', {
      ...expiring,
      id: 1n,
      code_hash: 'h',
      client_id: 1n,
      scopes: 'user projects',
      redirect_uri: awkward,
      redirect_uri_sent: 1,
      code_challenge: null,
      for_mcp: 1,
    });
    const token = { client_id: 1n, user_id: user, scopes: 'user', created_at: 1n, for_mcp: 1 };
    await put('access_tokens', { id: 1n, token_hash: 'h', ...token, code_hash: 'c', last_used_at: largestId });
    await put('access_tokens', { id: 2n, token_hash: 'i', ...token, code_hash: null, last_used_at: null });
    await put('user_tokens', {
      id: 1n,
      owner_id: user,
      name: awkward,
      token_hash: 'h',
      scopes: 'user',
      project_ids: String(largestId),
      expires_at: largestId,
      last_used_at: largestId,
      last_used_from: awkward,
      created_at: 1n,
      tell_at: null,
    });
    await put('sessions', { id: 1n, token_hash: 'h', ...expiring, proven_at: largestId, by_issuer: 1 });
    await put('identities', {
      id: 1n,
      user_id: user,
      issuer: awkward,
      subject: awkward,
      refresh_token: seal({ table: 'identities', column: 'refresh_token' }, 1n),
      operator: 1,
      look_at: largestId,
      silent_since: null,
    });
    const flow = seal({ table: 'sign_in_flows', column: 'data' }, 1n);
    await put('sign_in_flows', { id: 1n, token_hash: 'h', data: flow, expires_at: largestId });
    await put('passkeys', {
      id: 1n,
      user_id: user,
      name: awkward,
      credential_id: 'c',
      public_key: 'k',
      counter: largestId,
      transports: 'usb nfc',
      created_at: 1n,
      last_used_at: null,
    });
    await put('recovery_codes', { id: 1n, user_id: user, code_hash: 'h' });
    await put('password_links', { id: 1n, token_hash: 'h', ...expiring });
    const failures = { failures: 3, last_at: 1n, refused_until: largestId, noted_at: 2n };
    await put('sign_in_failures', { id: 1n, subject: awkward, ...failures });
    const entry = { created_at: 1n, action: 'suite.updated', via: 'token', details: JSON.stringify({ awkward }) };
    const actor = { actor_id: user, actor_email: 'a@example.org', application: awkward, address: '192.0.2.1' };
    await put('audit_entries', {
      id: 1n,
      ...entry,
      ...actor,
      subject_id: suite,
      subject_name: awkward,
      project_id: project,
      account_id: user,
    });
    const nobody = { actor_id: null, actor_email: null, application: null, address: null };
    const nothing = { subject_id: null, subject_name: '', project_id: null, account_id: null };
    await put('audit_entries', { id: 2n, ...entry, ...nobody, ...nothing });
    await put('organisations', { id: user, description: awkward });
    const invited = { invited_by: user, invitation_hash: awkward, expires_at: 5n };
    await put('organisation_members', {
      id: 1n,
      organisation_id: user,
      user_id: user,
      role: 'viewer',
      since: 4n,
      ...invited,
    });
    const digests = { ordered_key: awkward, reported_key: awkward, vouches_for: awkward };
    await put('build_inputs', { id: 1n, ordered: '[]', reported: awkward, ...digests });
    await put('reuse_stops', { id: 1n, project_id: project, suite_name: awkward });
    await put('build_tokens', { id: 1n, token_hash: 'f'.repeat(64), starts_builds: 1 });
    await put('signing_keys', {
      id: largestId,
      public_key: '{"kty":"EC"}',
      private_key: seal({ table: 'signing_keys', column: 'private_key' }, largestId),
      signs_from: largestId,
    });
    await put('master_key_canary', { id: 1n, sealed: seal({ table: 'master_key_canary', column: 'sealed' }, 1n) });
    await put('id_nodes', { node: 0, holder: 'h', leased_until: 0n, used_until: 1n });
  });
}

/** Every row of every table, as text that can be compared between the databases. */
export async function everyRow(db: Database): Promise<Record<string, string[]>> {
  const tables = await db.read.introspection.getTables();
  const all: Record<string, string[]> = {};
  for (const { name } of tables) {
    const rows = await db.read
      .selectFrom(name as keyof Schema)
      .selectAll()
      .execute();
    all[name] = rows.map((row) => Object.entries(row).map(comparable).toSorted().join(', ')).toSorted();
  }
  return all;
}

function comparable([name, value]: [string, unknown]): string {
  if (value instanceof Uint8Array) return `${name}: bytes ${Buffer.from(value).toString('hex')}`;
  return `${name}: ${typeof value} ${String(value)}`;
}
