import type { SelectQueryBuilder } from 'kysely';
import { doomLogsOf } from '../db/doomed-blobs.ts';
import { runAgain, type Transaction } from '../db/open.ts';
import { sealedLocation, type ProjectRow, type Schema } from '../db/schema.ts';
import { sealIn } from '../db/sealing.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import { generateSshKeyPair } from '../../shared/lib/ssh-keys.ts';
import type { Vault } from '../../shared/lib/vault.ts';
import type { ColumnsOf } from '../../shared/records/fields.ts';
import type { projectFields } from '../../shared/records/project.ts';
import { dropDeliveryJob } from '../queue/delivery-jobs.ts';
import { drop } from '../queue/queue.ts';
import { unlinked } from './forges.ts';
import { projectMachine } from './states.ts';
import { dropUploads } from './uploads.ts';
import { projectTopic, type WriteContext } from './write-context.ts';

export type ProjectSettings = ColumnsOf<typeof projectFields>;

/** A forge may need the id and keys before the project exists. */
export function newIdentity(ids: IdSource) {
  const id = ids.next();
  return { id, keys: generateSshKeyPair(`headrace-${id}`) };
}

export async function createProject(
  { trx, ids }: WriteContext,
  ownerId: bigint,
  vault: Vault,
  settings: ProjectSettings,
  { id, keys } = newIdentity(ids),
): Promise<ProjectRow> {
  const sealed = (column: 'ssh_public_key' | 'ssh_private_key', key: string): Promise<string> =>
    sealIn(trx, vault, key, sealedLocation({ table: 'projects', column }, id));
  const project: ProjectRow = {
    id,
    owner_id: ownerId,
    ...settings,
    build_state: projectMachine.initial,
    ssh_public_key: await sealed('ssh_public_key', keys.publicKey),
    ssh_private_key: await sealed('ssh_private_key', keys.privateKey),
    created_at: BigInt(Date.now()),
    last_event: 0n,
    default_head_id: null,
    default_branch: '',
    passed_since: null,
    failed_since: null,
    ...unlinked,
    forge_held_until: 0n,
    offered_to_id: null,
    offered_by_id: null,
  };
  await trx.insertInto('projects').values(project).execute();
  return project;
}

export async function changeProject(
  { trx }: WriteContext,
  id: bigint,
  settings: Partial<ProjectSettings>,
): Promise<void> {
  if (Object.keys(settings).length === 0) return;
  await trx.updateTable('projects').set(settings).where('id', '=', id).execute();
}

export async function deleteProject(context: WriteContext, projectId: bigint): Promise<void> {
  await holdHooks(context, projectId);
  await dropWork(context, projectId);
  await context.trx.deleteFrom('projects').where('id', '=', projectId).execute();
}

/** A hook's call locks the hook before it cancels jobs, so a transaction that removes both must use the same order. */
export async function holdHooks({ db, trx }: Pick<WriteContext, 'db' | 'trx'>, projectId: bigint): Promise<void> {
  const hooks = trx.selectFrom('hooks').select('id').where('project_id', '=', projectId).orderBy('id');
  await db.lockedForRemoval(hooks, 'hooks').execute();
}

async function dropWork({ db, trx }: WriteContext, projectId: bigint): Promise<void> {
  const own = (table: WorkTable) => trx.selectFrom(table).select('id').where('project_id', '=', projectId);
  const subjects = own('build_requests')
    .unionAll(own('builds'))
    .unionAll(own('deploys'))
    .unionAll(own('connection_checks'));
  await drop(db, trx, subjects as never);
  await dropUploads(db, trx, projectId);
  // A transaction that holds one of these rows may want the project next. The deletion would lock these rows only after
  // the project.
  const held: bigint[] = [];
  for (const table of heldFirst) held.push(await count(trx, db.lockedForRemoval(own(table).orderBy('id'), table)));
  const project = trx.selectFrom('projects').select('id').where('id', '=', projectId);
  await db.lockedForRemoval(project, 'projects').execute();
  // Before the project was locked, other transactions could add rows, and may hold them now.
  const present: bigint[] = [];
  for (const table of heldFirst) present.push(await count(trx, own(table)));
  const jobs = trx
    .selectFrom('jobs')
    .select('id')
    .where('subject_id', 'in', subjects as never);
  if (present.some((many, at) => many !== held[at]) || (await jobs.limit(1).executeTakeFirst())) runAgain();
  const notifications = trx.selectFrom('notifications').select('id').where('project_id', '=', projectId).orderBy('id');
  for (const { id } of await db.locked(notifications, 'notifications').execute()) await dropDeliveryJob(trx, id);
  await doomLogsOf(trx, projectId);
  // The database would delete them with their builds, in any order (db/lock-order.ts).
  const shells = trx.selectFrom('shells').select('id').where('project_id', '=', projectId).orderBy('id');
  await db.locked(shells, 'shells').execute();
  await db.announce(trx, projectTopic(projectId));
}

const heldFirst = ['build_requests', 'commits', 'kept_builds'] as const;

type WorkTable = (typeof heldFirst)[number] | 'builds' | 'deploys' | 'connection_checks';

/** Counts in the database, because a project may have very many rows. */
async function count(trx: Transaction, rows: SelectQueryBuilder<Schema, WorkTable, { id: bigint }>): Promise<bigint> {
  const counted = trx.selectFrom(rows.as('own')).select((of) => of.fn.countAll<bigint>().as('many'));
  return (await counted.executeTakeFirstOrThrow()).many;
}
