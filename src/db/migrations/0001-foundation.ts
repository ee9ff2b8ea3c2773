import { sql, type CreateTableBuilder } from 'kysely';
import type { Transaction } from '../open.ts';

/** Accounts, projects and everything a project holds. */
export async function foundation(trx: Transaction): Promise<void> {
  const table = <T extends string>(name: T): CreateTableBuilder<T, 'id'> =>
    trx.schema.createTable(name).addColumn('id', 'bigint', (column) => column.primaryKey());

  await table('users')
    .addColumn('email', 'text', (column) => column.notNull().unique())
    .addColumn('password_hash', 'text')
    .addColumn('api_key_hash', 'text')
    .addColumn('kind', 'text', (column) => column.notNull())
    .addColumn('suspended', 'integer', (column) => column.notNull())
    .addColumn('billing', 'text', (column) => column.notNull())
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .execute();

  await table('projects')
    .addColumn('owner_id', 'bigint', (column) => column.notNull().references('users.id'))
    .addColumn('name', 'text', (column) => column.notNull())
    .addColumn('description', 'text', (column) => column.notNull())
    .addColumn('repository_url', 'text', (column) => column.notNull())
    .addColumn('build_state', 'text', (column) => column.notNull())
    .addColumn('ssh_public_key', 'text', (column) => column.notNull())
    .addColumn('ssh_private_key', 'text', (column) => column.notNull())
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .addUniqueConstraint('projects_name', ['owner_id', 'name'])
    .execute();

  await table('collaborators')
    .addColumn('project_id', 'bigint', (column) => column.notNull().references('projects.id').onDelete('cascade'))
    .addColumn('user_id', 'bigint', (column) => column.notNull().references('users.id'))
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .addUniqueConstraint('collaborators_user', ['project_id', 'user_id'])
    .execute();
  await trx.schema.createIndex('collaborators_by_user').on('collaborators').column('user_id').execute();

  await table('suites')
    .addColumn('project_id', 'bigint', (column) => column.notNull().references('projects.id').onDelete('cascade'))
    .addColumn('name', 'text', (column) => column.notNull())
    .addColumn('description', 'text', (column) => column.notNull())
    .addColumn('command', 'text', (column) => column.notNull())
    .addUniqueConstraint('suites_name', ['project_id', 'name'])
    .execute();

  await table('suite_rules')
    .addColumn('suite_id', 'bigint', (column) => column.notNull().references('suites.id').onDelete('cascade'))
    .addColumn('subject', 'text', (column) => column.notNull())
    .addColumn('operator', 'text', (column) => column.notNull())
    .addColumn('value', 'text', (column) => column.notNull())
    .execute();
  await trx.schema.createIndex('suite_rules_by_suite').on('suite_rules').columns(['suite_id', 'id']).execute();

  await table('environment_variables')
    .addColumn('suite_id', 'bigint', (column) => column.notNull().references('suites.id').onDelete('cascade'))
    .addColumn('name', 'text', (column) => column.notNull())
    .addColumn('content', 'text', (column) => column.notNull())
    .addUniqueConstraint('environment_variables_name', ['suite_id', 'name'])
    .execute();

  await table('dependencies')
    .addColumn('owner_id', 'bigint', (column) => column.notNull().references('users.id'))
    .addColumn('name', 'text', (column) => column.notNull())
    .addColumn('description', 'text', (column) => column.notNull())
    .addColumn('command', 'text', (column) => column.notNull())
    .addColumn('prefix', 'text', (column) => column.notNull())
    .addColumn('source', 'text', (column) => column.notNull())
    .addColumn('launch_command', 'text', (column) => column.notNull())
    .addColumn('state', 'text', (column) => column.notNull())
    .addColumn('archive_content_type', 'text')
    .addColumn('archive_file_size', 'bigint')
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .addUniqueConstraint('dependencies_name', ['owner_id', 'name'])
    .execute();
  // The marketplace is a short slice of a table that may be long.
  await trx.schema
    .createIndex('dependencies_shared')
    .on('dependencies')
    .column('id')
    .where(sql.ref('state'), '=', sql.lit('shared'))
    .execute();

  await table('dependency_relations')
    .addColumn('dependency_id', 'bigint', (column) =>
      column.notNull().references('dependencies.id').onDelete('cascade'),
    )
    .addColumn('related_id', 'bigint', (column) => column.notNull().references('dependencies.id'))
    .addUniqueConstraint('dependency_relations_related', ['dependency_id', 'related_id'])
    .execute();
  await trx.schema
    .createIndex('dependency_relations_by_related')
    .on('dependency_relations')
    .column('related_id')
    .execute();

  await table('suite_dependencies')
    .addColumn('suite_id', 'bigint', (column) => column.notNull().references('suites.id').onDelete('cascade'))
    .addColumn('dependency_id', 'bigint', (column) => column.notNull().references('dependencies.id'))
    .addUniqueConstraint('suite_dependencies_dependency', ['suite_id', 'dependency_id'])
    .execute();
  await trx.schema
    .createIndex('suite_dependencies_by_dependency')
    .on('suite_dependencies')
    .column('dependency_id')
    .execute();

  await table('deploy_strategies')
    .addColumn('project_id', 'bigint', (column) => column.notNull().references('projects.id').onDelete('cascade'))
    .addColumn('name', 'text', (column) => column.notNull())
    .addColumn('strategy_type', 'text', (column) => column.notNull())
    .addColumn('repository_url', 'text', (column) => column.notNull())
    .addColumn('local_branch', 'text', (column) => column.notNull())
    .addColumn('remote_branch', 'text', (column) => column.notNull())
    .addUniqueConstraint('deploy_strategies_name', ['project_id', 'name'])
    .execute();

  await table('commits')
    .addColumn('project_id', 'bigint', (column) => column.notNull().references('projects.id').onDelete('cascade'))
    .addColumn('ref', 'text', (column) => column.notNull())
    .addColumn('version', 'integer', (column) => column.notNull())
    .addColumn('build_state', 'text', (column) => column.notNull())
    .addColumn('message', 'text', (column) => column.notNull())
    .addColumn('scm_author_name', 'text', (column) => column.notNull())
    .addColumn('scm_author_email', 'text', (column) => column.notNull())
    .addColumn('scm_authored_date', 'text', (column) => column.notNull())
    .addColumn('scm_committer_name', 'text', (column) => column.notNull())
    .addColumn('scm_committer_email', 'text', (column) => column.notNull())
    .addColumn('scm_committed_date', 'text', (column) => column.notNull())
    .addColumn('branches', 'text', (column) => column.notNull())
    .addColumn('tags', 'text', (column) => column.notNull())
    .addColumn('files', 'text', (column) => column.notNull())
    .addUniqueConstraint('commits_ref', ['project_id', 'ref'])
    .execute();
  await trx.schema.createIndex('commits_newest').on('commits').columns(['project_id', 'id']).execute();

  await table('build_requests')
    .addColumn('project_id', 'bigint', (column) => column.notNull().references('projects.id').onDelete('cascade'))
    .addColumn('commit_ref', 'text', (column) => column.notNull())
    .addColumn('commit_id', 'bigint', (column) => column.references('commits.id').onDelete('cascade'))
    .addColumn('build_state', 'text', (column) => column.notNull())
    .addColumn('created_by', 'bigint', (column) => column.notNull().references('users.id'))
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .execute();
  await trx.schema.createIndex('build_requests_newest').on('build_requests').columns(['project_id', 'id']).execute();
  await trx.schema.createIndex('build_requests_by_commit').on('build_requests').column('commit_id').execute();

  await table('builds')
    .addColumn('project_id', 'bigint', (column) => column.notNull().references('projects.id').onDelete('cascade'))
    .addColumn('build_request_id', 'bigint', (column) =>
      column.notNull().references('build_requests.id').onDelete('cascade'),
    )
    .addColumn('commit_id', 'bigint', (column) => column.notNull().references('commits.id').onDelete('cascade'))
    .addColumn('suite_id', 'bigint', (column) => column.notNull())
    .addColumn('build_state', 'text', (column) => column.notNull())
    .addColumn('attempt', 'integer', (column) => column.notNull())
    .addColumn('exit_status', 'integer')
    .addColumn('failure_reason', 'text', (column) => column.notNull())
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .addColumn('started_at', 'bigint')
    .addColumn('finished_at', 'bigint')
    .execute();
  await trx.schema.createIndex('builds_of_commit').on('builds').columns(['commit_id', 'id']).execute();
  await trx.schema.createIndex('builds_of_project').on('builds').columns(['project_id', 'id']).execute();
  await trx.schema.createIndex('builds_of_request').on('builds').columns(['build_request_id', 'id']).execute();

  await table('deploys')
    .addColumn('project_id', 'bigint', (column) => column.notNull().references('projects.id').onDelete('cascade'))
    .addColumn('deploy_strategy_id', 'bigint', (column) => column.notNull())
    .addColumn('commit_id', 'bigint', (column) => column.notNull().references('commits.id').onDelete('cascade'))
    .addColumn('state', 'text', (column) => column.notNull())
    .addColumn('created_by', 'bigint', (column) => column.notNull().references('users.id'))
    .addColumn('started_at', 'bigint')
    .addColumn('finished_at', 'bigint')
    .execute();
  await trx.schema.createIndex('deploys_newest').on('deploys').columns(['project_id', 'id']).execute();
  await trx.schema.createIndex('deploys_of_commit').on('deploys').column('commit_id').execute();

  await table('notifications')
    .addColumn('project_id', 'bigint', (column) => column.notNull().references('projects.id').onDelete('cascade'))
    .addColumn('name', 'text', (column) => column.notNull())
    .addColumn('notifiable_type', 'text', (column) => column.notNull())
    .addColumn('url', 'text', (column) => column.notNull())
    .addColumn('secret', 'text', (column) => column.notNull())
    .execute();
  await trx.schema.createIndex('notifications_of_project').on('notifications').columns(['project_id', 'id']).execute();

  await table('deliveries')
    .addColumn('notification_id', 'bigint', (column) =>
      column.notNull().references('notifications.id').onDelete('cascade'),
    )
    .addColumn('event_type', 'text', (column) => column.notNull())
    .addColumn('payload', 'text', (column) => column.notNull())
    .addColumn('state', 'text', (column) => column.notNull())
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .execute();
  await trx.schema.createIndex('deliveries_newest').on('deliveries').columns(['notification_id', 'id']).execute();

  await table('delivery_attempts')
    .addColumn('delivery_id', 'bigint', (column) => column.notNull().references('deliveries.id').onDelete('cascade'))
    .addColumn('status', 'integer')
    .addColumn('duration_ms', 'integer', (column) => column.notNull())
    .addColumn('answer', 'text', (column) => column.notNull())
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .execute();
  await trx.schema
    .createIndex('delivery_attempts_of_delivery')
    .on('delivery_attempts')
    .columns(['delivery_id', 'id'])
    .execute();

  await table('idempotency_keys')
    .addColumn('user_id', 'bigint', (column) => column.notNull().references('users.id'))
    .addColumn('key', 'text', (column) => column.notNull())
    .addColumn('request_hash', 'text', (column) => column.notNull())
    .addColumn('status', 'integer', (column) => column.notNull())
    .addColumn('answer', 'text', (column) => column.notNull())
    .addColumn('created_at', 'bigint', (column) => column.notNull())
    .addUniqueConstraint('idempotency_keys_key', ['user_id', 'key'])
    .execute();
  await trx.schema.createIndex('idempotency_keys_by_age').on('idempotency_keys').column('created_at').execute();

  await trx.schema
    .createTable('id_nodes')
    .addColumn('node', 'integer', (column) => column.primaryKey())
    .addColumn('holder', 'text', (column) => column.notNull())
    .addColumn('leased_until', 'bigint', (column) => column.notNull())
    .addColumn('used_until', 'bigint', (column) => column.notNull())
    .execute();
}
