import { projectRoute } from '../api/route.ts';
import { isHolderAlive } from '../auth/runner-heartbeats.ts';
import type { Database, Queries } from '../db/open.ts';
import type { ShellRow } from '../db/schema.ts';
import type { Subscriptions } from '../db/subscriptions.ts';
import { ApiError } from '../../shared/errors.ts';
import { described, text, wholeNumber } from '../../shared/records/fields.ts';
import { shellFrame } from '../../shared/domain/shell-frames.ts';
import { timestamp } from '../../shared/lib/timestamps.ts';
import { findFilesForShell, openable } from '../lifecycle/kept-builds.ts';
import { endShell, insertShell, isNew, checkEveryMs, noteClient, whyOver } from '../outputs/shells.ts';
import { subjectTopic } from '../lifecycle/write-context.ts';
import type { Waiting } from '../streams/byte-relay.ts';
import { shellInputRecord, shellRecord } from '../../shared/records/build.ts';
import { string } from '../../shared/records/schema.ts';
import { findBuild } from './builds.ts';
import { destroyed, destroyedAnswer, orNotFound, withIdString, writeContextOf } from './common.ts';

const path = '/projects/:project_id/builds/:build_id/shell';
const furthest = 10 ** 15 - 1;
const position = () => wholeNumber({ min: 0, max: furthest, fallback: 0 });
const holdMs = 10_000;

interface ShellInPath {
  db: Queries;
  project: { id: bigint };
  caller: { id: bigint };
  params: { build_id: bigint; shell_id: bigint };
}

/** A shell belongs only to the caller who opened it. */
function ownShell({ db, project, caller, params }: ShellInPath) {
  const shells = db.selectFrom('shells').selectAll().where('id', '=', params.shell_id);
  const own = shells.where('project_id', '=', project.id).where('account_id', '=', caller.id);
  return own.where('build_id', '=', params.build_id);
}

async function loadShell(call: ShellInPath): Promise<{ shell: ShellRow }> {
  return { shell: orNotFound(await ownShell(call).executeTakeFirst()) };
}

/** Locks the shell for concurrent callers. A call with invalid fields has no transaction. */
async function holdShell(call: ShellInPath & { database: Database }): Promise<{ shell: ShellRow }> {
  const own = ownShell(call);
  const held = call.db.isTransaction ? call.database.locked(own, 'shells') : own;
  return { shell: orNotFound(await held.executeTakeFirst()) };
}

/** A shell that had ended before is not recorded. */
const asSubject = ({ shell }: { shell: ShellRow }) =>
  shell.state === 'ended' ? undefined : { id: shell.id, name: String(shell.build_id) };

export const routes = [
  projectRoute({
    method: 'POST',
    path,
    access: 'both',
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
    path: `${path}/:shell_id/output`,
    access: 'both',
    scope: 'shells',
    summary: 'Follow what a shell shows, from a position on, as frames',
    query: { from: described(position(), 'The byte from which on') },
    streams: ['application/octet-stream'],
    answer: string,
    load: loadShell,
    async handle({ database, subscriptions, relay, signal, shell, query }) {
      const read = (from: number, waiting: Waiting) => relay.read(`${shell.id}/out`, from, waiting);
      const body = shown({ database, subscriptions, read, signal, id: shell.id, from: query.from });
      return { contentType: 'application/octet-stream', headers: { 'cache-control': 'no-store' }, body };
    },
  }),
  projectRoute({
    method: 'POST',
    path: `${path}/:shell_id/input`,
    access: 'both',
    scope: 'shells',
    summary:
      'Type into a shell: frames in base64, at a position; answers up to where the shell has them. Without any it says ' +
      'that somebody is there, which has to be said at least every 45 seconds',
    body: { offset: position(), data: text('shellInput', { pattern: /^[A-Za-z0-9+/]+={0,2}$/ }) },
    answer: shellInputRecord,
    load: holdShell,
    audit: { action: 'shell.connected', subject: (call) => (isNew(call.shell) ? asSubject(call) : undefined) },
    async handle({ db, shell, input }) {
      if (shell.state === 'ended') throw new ApiError('not_found');
      const bytes = Buffer.from(input.data, 'base64');
      await noteClient(db, shell);
      return { id: shell.id, offset: input.offset, bytes };
    },
    async follow({ relay, subscriptions, signal }, { id, ...piece }: { id: bigint; offset: number; bytes: Buffer }) {
      if (piece.bytes.length === 0) return { taken: piece.offset };
      using watch = subscriptions.watch(subjectTopic(id));
      const at = await relay.write(`${id}/in`, piece, { watch, ms: holdMs, signal });
      return { taken: at ?? piece.offset };
    },
  }),
  projectRoute({
    method: 'DELETE',
    path: `${path}/:shell_id`,
    access: 'both',
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

interface Showing {
  database: Database;
  subscriptions: Subscriptions;
  read: (from: number, waiting: Waiting) => Promise<Buffer | undefined>;
  signal: AbortSignal;
  id: bigint;
  from: number;
}

async function* shown({ database, subscriptions, read, signal, id, from }: Showing): AsyncGenerator<Uint8Array> {
  using watch = subscriptions.watch(subjectTopic(id));
  let checkedAt = -Infinity;
  let isQuiet = true;
  for (let at = from; !signal.aborted;) {
    if (isQuiet || performance.now() - checkedAt > checkEveryMs) {
      const over = await whyEnded(database, id);
      if (over !== undefined) {
        yield* endFrames(over);
        return;
      }
      checkedAt = performance.now();
    }
    const piece = await read(at, { watch, ms: checkEveryMs, signal });
    isQuiet = piece === undefined;
    if (piece) {
      at += piece.length;
      yield piece;
    }
  }
}

/** Readers do not end a shell: `dispatch/shells.ts` does. */
async function whyEnded(database: Database, id: bigint): Promise<string | undefined> {
  const shell = await database.read.selectFrom('shells').selectAll().where('id', '=', id).executeTakeFirst();
  if (!shell) return 'gone';
  return shell.state === 'ended' ? shell.reason : whyOver(shell);
}

const endMessages: Record<string, string> = {
  runner_gone: 'The runner that has the files of this build is gone.',
  expired: 'The files of this build are not kept any longer.',
  gone: 'The build is gone.',
  closed: 'The shell was closed.',
};

/** Only for a shell that was ended: one that exited has sent its status. */
function* endFrames(reason: string): Generator<Uint8Array> {
  yield shellFrame('m', endMessages[reason] ?? 'The shell is over.');
  yield shellFrame('x', '3');
}
