import type { WebSocket } from 'ws';
import { managesProject, showsTooMuch } from '../auth/projects.ts';
import { holdRunner, type Runner } from '../auth/runners.ts';
import { recordShell } from '../auth/shell-audit.ts';
import type { Database, Transaction } from '../db/open.ts';
import type { ShellRow } from '../db/schema.ts';
import type { Subscriptions } from '../db/subscriptions.ts';
import type { IdSource } from '../../shared/lib/ids.ts';
import type { Vault } from '../../shared/lib/vault.ts';
import { endShell, isAwaited, locationTopic, noteRunner, notAllowed, takeShells, whyOver } from '../outputs/shells.ts';
import { subjectTopic } from '../lifecycle/write-context.ts';
import type { ShellOrder } from '../../shared/protocol/index.ts';
import type { ShellRelay } from '../streams/shell-relay.ts';
import type { CallHandlers } from './calls.ts';
import { sourceOf } from './sources.ts';

/** Only for the runner that has the files. */
interface Shells {
  calls: Pick<CallHandlers, 'shells' | 'shellEnd'>;
  serve(socket: WebSocket, runner: Runner, id: bigint, signal: AbortSignal): Promise<void>;
}

export interface ShellsParts {
  db: Database;
  ids: IdSource;
  vault: Vault;
  subscriptions: Subscriptions;
  relay: ShellRelay;
  isQuiet: (holder: string) => boolean;
}

const checkEveryMs = 5000;

export function createShells({ db, ids, vault, subscriptions, relay, isQuiet }: ShellsParts): Shells {
  const find = async (runner: Runner, id: bigint): Promise<ShellRow | undefined> =>
    db.read
      .selectFrom('shells')
      .innerJoin('kept_builds', 'kept_builds.id', 'shells.build_id')
      .selectAll('shells')
      .where('shells.id', '=', id)
      .where('shells.state', '!=', 'ended')
      .where('kept_builds.holder', '=', runner.holder)
      .executeTakeFirst();

  const end = (id: bigint, reason: string): Promise<void> => endAndRecord({ db, ids }, id, reason);

  const checkFor = async (runner: Runner, id: bigint, isHeard: boolean): Promise<string | undefined> => {
    const shell = await find(runner, id);
    if (!shell) return 'The shell has ended.';
    const over = (await showsTooMuch(db.read, shell))
      ? notAllowed
      : whyOver({ ...shell, runner_seen_at: BigInt(Date.now()) });
    if (over !== undefined) await end(id, over);
    else if (isHeard) await noteRunner(db, shell);
    return over;
  };

  const calls: Shells['calls'] = {
    async shells(runner, { location, room, ...asking }, signal) {
      const running = asking.running.map(BigInt);
      using watch = subscriptions.watch(locationTopic(location));
      for (;;) {
        const isAny = !isQuiet(runner.holder) && (await isAwaited(db.read, location, running));
        const orders = isAny ? await take(runner, location, running, room) : [];
        if (orders.length > 0 || signal.aborted) return orders;
        await watch.changed(checkEveryMs, signal);
      }
    },

    async shellEnd(runner, { shell, reason }) {
      if (await find(runner, BigInt(shell))) await end(BigInt(shell), reason);
    },
  };
  return {
    calls,
    async serve(socket, runner, id, signal) {
      using watch = subscriptions.watch(subjectTopic(id));
      const check = (isHeard: boolean): Promise<string | undefined> => checkFor(runner, id, isHeard);
      await relay.serve({ id, side: 'runner', socket, watch, signal, admit: () => {}, check });
    },
  };

  async function take(
    runner: Runner,
    location: string,
    running: readonly bigint[],
    room: number,
  ): Promise<ShellOrder[]> {
    return db.transaction(async (trx) => {
      await holdRunner(db, trx, runner);
      const taken = await takeShells(trx, vault, { location, holder: runner.holder, running, room });
      const orders: ShellOrder[] = [];
      for (const {
        id,
        build_id: buildId,
        project_id: projectId,
        account_id: by,
        sees_limited: seesLimited,
        name,
        key,
        expires_at: end,
      } of taken) {
        const projects = trx
          .selectFrom('projects')
          .select(['id', 'owner_id', 'clone_url', 'ssh_private_key', 'forge_id', 'forge_git_origin']);
        const project = await projects.where('id', '=', projectId).executeTakeFirstOrThrow();
        const lastsMs = Math.max(0, Number(end) - Date.now());
        const source = await sourceOf(trx, vault, project);
        const seesAll = seesLimited === 1 && (await managesProject(trx, project, by));
        const withheld = seesAll ? [] : await limitedIn(trx, buildId);
        orders.push({ id: `${id}`, buildId: `${buildId}`, name, key, source, lastsMs, withheld });
      }
      return orders;
    });
  }
}

async function limitedIn(trx: Transaction, buildId: bigint): Promise<string[]> {
  const builds = trx.selectFrom('builds').select(['project_id', 'suite_id', 'limited']).where('id', '=', buildId);
  const { project_id: project, suite_id: suite, limited } = await builds.executeTakeFirstOrThrow();
  const now = await trx
    .selectFrom('environment_variables')
    .select('name')
    .where((of) =>
      of.or([
        of('project_id', '=', project),
        of('suite_id', '=', suite),
        of('organisation_id', 'in', of.selectFrom('projects').select('owner_id').where('id', '=', project)),
      ]),
    )
    .where('refs', '<>', '[]')
    .execute();
  return [...new Set([...(JSON.parse(limited) as string[]), ...now.map(({ name }) => name)])];
}

async function endAndRecord({ db, ids }: Pick<ShellsParts, 'db' | 'ids'>, id: bigint, reason: string): Promise<void> {
  await db.transaction(async (trx) => {
    const ended = await endShell({ db, trx }, id, reason);
    if (ended) await recordShell(trx, ids, ended, { action: 'shell.ended', details: { reason } });
  });
}

/** For shells that one side left and the other side did not end. */
export async function endLeftShells(parts: Pick<ShellsParts, 'db' | 'ids'>): Promise<void> {
  const open = await parts.db.read.selectFrom('shells').selectAll().where('state', '!=', 'ended').execute();
  for (const shell of open) {
    const over = whyOver(shell);
    if (over !== undefined) await endAndRecord(parts, shell.id, over);
  }
}
