import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { drainRunner } from '../../../src/server/auth/runners.ts';
import { randomName } from '../../../src/shared/lib/random-name.ts';
import { DrainedError, type Link, type Order } from '../../../src/shared/protocol/index.ts';
import type { Fields, Record_ } from '../../support/client.ts';
import { registered, type Registered } from '../../support/registered.ts';
import { describeService } from '../../support/service.ts';
import type { User } from '../../support/user.ts';

const patient = new AbortController().signal;

describeService('a runner that is drained', (service) => {
  let operator: User;
  let alice: User;
  let project: Record_;
  before(async () => {
    operator = await service.user();
    alice = await service.user();
    project = await alice.createProject();
  });
  const drain = async ({ name }: Registered, isOn = true): Promise<void> => {
    const holder = await service.store.db.transaction((trx) => drainRunner(trx, name, isOn));
    assert.match(holder ?? '', /^runner /);
  };
  const ask = (): Promise<Record_> => alice.requestBuild(project);
  const unfetchable = (link: Link, { claim }: Order) =>
    link.finish({ claim, outcome: { kind: 'unfetchable', reason: 'x' }, logSize: 0 }, patient);
  const take = async (link: Link): Promise<Order> =>
    (await link.next({ claim: randomName() }, patient)) ?? assert.fail('no order');

  test('is told to end within a moment while it waits, and gets nothing that waits', async () => {
    await using runner = await opened(registered(service));
    await using other = await opened(registered(service));
    const held = assert.rejects(runner.link.next({ claim: randomName() }, patient), DrainedError);
    await drain(runner);
    await held;
    await ask();
    await assert.rejects(runner.link.next({ claim: randomName() }, patient), DrainedError);
    await unfetchable(other.link, await take(other.link));
  });

  test('does what it has to its end, is given no more with that, and then ends', async () => {
    await using runner = await opened(registered(service));
    await using other = await opened(registered(service));
    await ask();
    const name = randomName();
    const order = (await runner.link.next({ claim: name }, patient)) ?? assert.fail('no order');
    await drain(runner);
    await ask();
    assert.equal(
      await runner.link.next({ claim: randomName() }, patient),
      undefined,
      'it goes on while it has something',
    );
    // An answer that was lost on its way is given again.
    assert.equal((await runner.link.next({ claim: name }, patient))?.claim, order.claim);
    await runner.link.log({ claim: order.claim, offset: 0, bytes: Buffer.from('to the end\n') }, patient);
    const report = { claim: order.claim, outcome: { kind: 'unfetchable', reason: 'x' } as const, logSize: 11 };
    assert.deepEqual(await runner.link.finish(report, patient), { taken: true });
    await assert.rejects(runner.link.next({ claim: randomName() }, patient), DrainedError);
    await unfetchable(other.link, await take(other.link));
  });

  test('is shown to operators, and so is that nobody takes what waits; --off takes it back', async () => {
    await using runner = await opened(registered(service));
    const shown = async (): Promise<Fields | undefined> =>
      (await operator.get('/runners')).list.find(({ name }) => name === runner.name);
    await runner.link.access({ claim: randomName() }, patient);
    // The server may not know yet that the others have left, and would note them as connected once more.
    await service.store.db.transaction((trx) =>
      trx.deleteFrom('runner_heartbeats').where('holder', 'not like', `%${runner.name}%`).execute(),
    );
    assert.deepEqual([(await shown())?.state, (await shown())?.draining], ['idle', false]);
    const request = `/projects/${project.id}/build_requests/${(await ask()).id}`;
    const reason = async (): Promise<unknown> => (await alice.get(request)).record.waiting_reason;
    assert.equal(await reason(), 'waits for its turn');
    await drain(runner);
    assert.deepEqual([(await shown())?.state, (await shown())?.draining], ['idle', true]);
    assert.equal(await reason(), 'all connected runners are draining');
    await drain(runner, false);
    assert.equal((await shown())?.draining, false);
    assert.equal(await reason(), 'waits for its turn');
    await unfetchable(runner.link, await take(runner.link));
  });

  test('looks at no repository any more', async () => {
    await using runner = await opened(registered(service));
    await using other = await opened(registered(service));
    await drain(runner);
    const polled = await alice.createProject({ poll_interval: '60' });
    await service.store.db.transaction((trx) =>
      trx.updateTable('polls').set({ next_poll_at: 0n }).where('project_id', '=', polled.id).execute(),
    );
    assert.deepEqual(await runner.link.polls({ room: 1 }, patient), []);
    assert.equal((await other.link.polls({ room: 1 }, patient)).length, 1);
  });
});

async function opened(making: Promise<Registered>): Promise<Registered & AsyncDisposable> {
  const one = await making;
  return { ...one, [Symbol.asyncDispose]: async () => one.link.close() };
}
