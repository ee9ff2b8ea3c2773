import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { randomName } from '../../src/lib/random-name.ts';
import { mostLooks, type Link } from '../../src/protocol/index.ts';
import { RefusedError } from '../../src/runner/failures.ts';
import { revokeRunner } from '../../src/auth/runners.ts';
import { registered } from '../support/registered.ts';
import { describeService, type Service } from '../support/service.ts';
import type { User } from '../support/user.ts';

const patient = new AbortController().signal;

describeService('one request for an order and for looks', (service) => {
  let alice: User;
  before(async () => {
    alice = await service.user();
  });
  const ask = (link: Link, room = mostLooks) => link.nextOrLooks({ claim: randomName(), room }, patient);

  test('brings what comes: looks, an order, and nothing after a while', async () => {
    const { link } = await registered(service);
    const forLooks = ask(link);
    const polled = await alice.createProject({ poll_interval: '60' });
    const { order: none, looks = [] } = await forLooks;
    assert.equal(none, null);
    assert.deepEqual(
      looks.map(({ source }) => source.projectId),
      [String(polled.id)],
    );

    const forOrder = ask(link);
    const project = await alice.createProject();
    await alice.requestBuild(project);
    const { order } = await forOrder;
    assert.ok(order?.work.kind === 'fetch_commit');
    assert.equal(order.work.source.projectId, String(project.id));
    const outcome = { kind: 'unfetchable', reason: 'x' } as const;
    await link.finish({ claim: order.claim, outcome, logSize: 0 }, patient);

    assert.deepEqual(await ask(link), { order: null, looks: [] });
    assert.deepEqual(await ask(link, 0), { order: null, looks: [] }, 'without room for looks');
    link.close();
  });

  test('brings both where both wait, and the same order again to who asks again', async () => {
    const { link } = await registered(service);
    await alice.createProject({ poll_interval: '60' });
    await alice.requestBuild(await alice.createProject());
    const claim = randomName();
    const { order, looks } = await link.nextOrLooks({ claim, room: mostLooks }, patient);
    assert.deepEqual([order?.claim, looks?.length], [claim, 1]);
    const again = await link.nextOrLooks({ claim, room: mostLooks }, patient);
    assert.deepEqual([again.order, again.looks], [order, []]);
    const outcome = { kind: 'unfetchable', reason: 'x' } as const;
    await link.finish({ claim, outcome, logSize: 0 }, patient);
    link.close();
  });

  test('is refused while it is held when the token is revoked, and one beside it goes on', async () => {
    const { db } = service.store;
    const [bad, good] = [await registered(service), await registered(service)];
    const [refused, held] = [assert.rejects(ask(bad.link), RefusedError), ask(good.link)];
    await db.transaction((trx) => revokeRunner(trx, bad.name));
    await refused;
    await alice.requestBuild(await alice.createProject());
    assert.equal((await held).order?.work.kind, 'fetch_commit');
    bad.link.close();
    good.link.close();
  });

  test('is watched by the kernel, so that a machine that vanished is noticed', async () => {
    const { link } = await registered(service);
    const leaving = new AbortController();
    const held = link.nextOrLooks({ claim: randomName(), room: 0 }, leaving.signal);
    const port = Number(new URL(service.address).port);
    while (!timersOf(port).includes(keepAlive)) await pause(10);
    leaving.abort();
    await assert.rejects(held);
    link.close();
  });
});

describeService(
  'a request that is held for long',
  (service) => {
    test('is answered at once when its runner takes no more, and not for what another runner says', async () => {
      const [one, other] = [await registered(service), await registered(service)];
      const [claim, room] = [randomName(), mostLooks];
      const answers: unknown[] = [];
      const held = one.link.nextOrLooks({ claim, room }, patient).then((answer) => answers.push(answer));
      while (runnersHeld(service) === 0) await pause(10);
      await other.link.leave([claim], patient);
      await one.link.gone([], patient); // what was to be answered is by now
      assert.deepEqual(answers, []);
      await one.link.leave([claim], patient);
      await held;
      assert.deepEqual(answers, [{ order: null, looks: [] }]);
      one.link.close();
      other.link.close();
    });
  },
  { idleHoldMs: 600_000 },
);

/** How many connections to the server wait for its answer. */
const runnersHeld = (service: Service): number =>
  timersOf(Number(new URL(service.address).port)).filter((timer) => timer === keepAlive).length;

/** What the kernel waits for on the connections to a port of this machine, as /proc/net/tcp tells it. */
function timersOf(port: number): string[] {
  const lines = readFileSync('/proc/net/tcp', 'utf8').split('\n').slice(1);
  const own = lines.map((line) => line.trim().split(/\s+/)).filter(([, local]) => local?.endsWith(`:${hex(port)}`));
  return own.map((fields) => fields[5]?.split(':')[0] ?? '');
}
const keepAlive = '02';
const hex = (port: number): string => port.toString(16).toUpperCase().padStart(4, '0');
