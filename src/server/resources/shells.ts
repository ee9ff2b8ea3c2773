import { doerOf } from '../api/audit.ts';
import { projectRoute } from '../api/route.ts';
import { recordAudit } from '../auth/audit.ts';
import type { Caller } from '../auth/callers.ts';
import { showsTooMuch } from '../auth/projects.ts';
import { recordShell } from '../auth/shell-audit.ts';
import { isHolderAlive } from '../auth/runner-heartbeats.ts';
import type { Database, Queries } from '../db/open.ts';
import type { ShellRow } from '../db/schema.ts';
import { ApiError } from '../../shared/errors.ts';
import { bytes } from '../../shared/domain/bounds.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import { timestamp } from '../../shared/lib/timestamps.ts';
import { findFilesForShell, openable } from '../lifecycle/kept-builds.ts';
import { endShell, insertShell, isNew, notAllowed, noteClient, whyOver } from '../outputs/shells.ts';
import { subjectTopic } from '../lifecycle/write-context.ts';
import { shellRecord } from '../../shared/records/build.ts';
import { string } from '../../shared/records/schema.ts';
import { findBuild } from './builds.ts';
import { destroyed, destroyedAnswer, orNotFound, withIdString, writeContextOf } from './common.ts';

const path = '/projects/:project_id/builds/:build_id/shell';

interface ShellInPath {
  db: Queries;
  project: { id: bigint };
  caller: { id: bigint };
  params: { build_id: bigint; shell_id: bigint };
}

/** Loads a shell only for the caller who opened it. */
async function loadShell({ db, project, caller, params }: ShellInPath): Promise<{ shell: ShellRow }> {
  const shells = db.selectFrom('shells').selectAll().where('id', '=', params.shell_id);
  const own = shells.where('project_id', '=', project.id).where('account_id', '=', caller.id);
  return { shell: orNotFound(await own.where('build_id', '=', params.build_id).executeTakeFirst()) };
}

/** A shell that had already ended is not recorded. */
const asSubject = ({ shell }: { shell: ShellRow }) =>
  shell.state === 'ended' ? undefined : { id: shell.id, name: String(shell.build_id) };

export const routes = [
  projectRoute({
    method: 'POST',
    path,
    access: 'developer',
    scope: 'shells',
    startsWork: true,
    summary: 'Open a shell in the files of a failed build, as they were when it ended',
    creates: 'work',
    answer: shellRecord,
    audit: { action: 'shell.opened', details: ({ params }) => ({ build_id_str: String(params.build_id) }) },
    async handle(call) {
      const { db, database, project, caller, params, shellHours } = call;
      const build = await findBuild(db, project.id, params.build_id);
      if (!openable.has(build.build_state)) throw new ApiError('invalid_format', 'build_state');
      const kept = shellHours > 0 ? await findFilesForShell(db, build.id) : undefined;
      if (!kept) throw new ApiError('not_found', 'files');
      if (!(await isHolderAlive(database, kept.holder))) throw new ApiError('resource_temporary_unavailable', 'runner');
      const shell = await insertShell(writeContextOf(call), project, kept, caller);
      if (!shell) throw new ApiError('resource_temporary_unavailable', 'shells');
      return { ...withIdString('id', shell.id), expires_at: timestamp(shell.expires_at) };
    },
  }),
  projectRoute({
    method: 'GET',
    path: `${path}/:shell_id/connection`,
    access: 'developer',
    scope: 'shells',
    summary: 'Connect to a shell. A WebSocket carries input and output',
    streams: [],
    connects: true,
    answer: string,
    load: loadShell,
    async handle(call) {
      const { relay, subscriptions, shell } = call;
      return {
        mostBytes: bytes.shellPacket,
        async connect(socket, client) {
          using watch = subscriptions.watch(subjectTopic(shell.id));
          const check = (isHeard: boolean): Promise<string | undefined> => checkClient(call, shell.id, isHeard);
          const { signal } = client;
          const admit = async (): Promise<void> => {
            try {
              await client.admit();
            } catch (error) {
              if (error instanceof ApiError) await takeAway(call, shell.id);
              throw error;
            }
          };
          await relay.serve({ id: shell.id, side: 'client', socket, watch, check, admit, signal });
          if (signal.reason instanceof ApiError) await takeAway(call, shell.id);
        },
      };
    },
  }),
  projectRoute({
    method: 'DELETE',
    path: `${path}/:shell_id`,
    access: 'developer',
    scope: 'shells',
    summary: 'End a shell',
    answer: destroyedAnswer,
    load: loadShell,
    audit: { action: 'shell.ended', subject: asSubject, details: () => ({ reason: 'closed' }) },
    async handle({ db, database, shell }) {
      await endShell({ db: database, trx: db }, shell.id, 'closed');
      return destroyed;
    },
  }),
];

interface Connecting {
  database: Database;
  ids: IdSource;
  caller: Caller;
  address: string | null;
}

/**
 * Returns the reason if the shell is over. Input from its client keeps a shell alive that its runner has not given up.
 */
async function checkClient(
  { database, ids, caller, address }: Connecting,
  id: bigint,
  isHeard: boolean,
): Promise<string | undefined> {
  const shells = (db: Queries) => db.selectFrom('shells').selectAll().where('id', '=', id);
  const shell = await shells(database.read).executeTakeFirst();
  const ended = shell?.state === 'ended' ? shell.reason : undefined;
  if (shell && ended === undefined && (await showsTooMuch(database.read, shell))) {
    await takeAway({ database, ids }, id);
    return endMessages[notAllowed];
  }
  const over = shell ? (ended ?? whyOver({ ...shell, client_seen_at: BigInt(Date.now()) })) : 'gone';
  if (over !== undefined) return endMessages[over] ?? 'The shell has ended.';
  if (!isHeard) return undefined;
  await database.transaction(async (trx) => {
    const held = await database.locked(shells(trx), 'shells').executeTakeFirst();
    const subject = held && asSubject({ shell: held });
    if (!held || !subject) return;
    if (isNew(held)) {
      const deed = { action: 'shell.connected', subject, projectId: held.project_id } as const;
      await recordAudit(trx, ids, doerOf(caller, address), deed);
    }
    await noteClient(trx, held);
  });
  return undefined;
}

/** What the shell runs ends too, and not only the connection to it. */
async function takeAway({ database, ids }: Pick<Connecting, 'database' | 'ids'>, id: bigint): Promise<void> {
  await database.transaction(async (trx) => {
    const ended = await endShell({ db: database, trx }, id, notAllowed);
    if (ended) await recordShell(trx, ids, ended, { action: 'shell.ended', details: { reason: notAllowed } });
  });
}

const endMessages: Record<string, string> = {
  runner_gone: 'The runner that has the files of this build is not connected.',
  expired: 'The files of this build are no longer stored.',
  gone: 'The build was deleted.',
  closed: 'The shell was closed.',
  [notAllowed]: 'You may no longer use this shell.',
};
