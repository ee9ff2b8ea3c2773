import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { createResolve } from '../../../src/shared/lib/resolve.ts';
import { notifyOfDependency } from '../../../src/server/lifecycle/webhook-events.ts';
import { retryPolicy } from '../../../src/server/outbound-webhooks/retry-policy.ts';
import { startSender } from '../../../src/server/outbound-webhooks/sender.ts';
import type { Record_ } from '../../support/client.ts';
import type { Receiver } from '../../support/receiver.ts';
import type { Service } from '../../support/service.ts';
import type { User } from '../../support/user.ts';

/** Moves a dependency as its lifecycle does: the state, and what is told of it, in one transaction. */
export async function moveDependency(
  service: Pick<Service, 'store'>,
  { id }: { id: bigint },
  state: string,
): Promise<void> {
  const { db, ids } = service.store;
  await db.transaction(async (trx) => {
    await trx.updateTable('dependencies').set({ state }).where('id', '=', id).execute();
    await notifyOfDependency({ db, trx, ids }, id);
  });
}

export interface Delivery extends Record_ {
  type: string;
  state: string;
  attempts: { status: number | null; duration_ms: number; answer: string; error: string }[];
}

/** Somebody whose project tells a receiver of a dependency: the shortest way to make something happen. */
export interface Telling {
  user: User;
  project: Record_;
  notification: Record_;
  /** Makes one event. Any word is a state as good as another here. */
  happen(state: string): Promise<void>;
  deliveries(): Promise<Delivery[]>;
  /** The deliveries, oldest first, once all of them are as `fits` wants them. */
  settled(fits: (delivery: Delivery) => boolean): Promise<Delivery[]>;
  path: string;
}

export async function startTelling(service: Service, receiver: Pick<Receiver, 'url'>, user?: User): Promise<Telling> {
  const someone = user ?? (await service.user());
  const project = await someone.createProject();
  const dependency = await someone.createDependency();
  const fields = { 'options[url]': receiver.url, notifiable_type: 'dependency' };
  const notification = await someone.createNotification(project, fields);
  const path = `/projects/${project.id}/notifications/${notification.id}`;
  const deliveries = async (): Promise<Delivery[]> =>
    (await someone.get(`${path}/deliveries`)).list.toReversed() as Delivery[];
  return {
    user: someone,
    project,
    notification,
    path,
    happen: (state) => moveDependency(service, dependency, state),
    deliveries,
    async settled(fits) {
      for (;;) {
        const all = await deliveries();
        if (all.every(fits)) return all;
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    },
  };
}

export const isDelivered = ({ state }: Delivery): boolean => state === 'delivered';

/** The sender of another server on the same database, until the test is over. */
export async function startOtherSender(t: TestContext, service: Service, origin: string): Promise<void> {
  const { db, ids, vault, observers } = service.store;
  const other = await startSender({
    db: { ...db }, // as another process has it
    ids,
    observers,
    vault,
    origin,
    blobs: service.store.blobs,
    searches: service.store.searches,
    mailer: undefined,
    retryPolicy,
    name: 'another server',
    callRules: { mayCall: () => true, resolve: createResolve() },
    attempted: () => {},
    onError: (error) => assert.fail(String(error)),
  });
  t.after(() => other.close());
}
