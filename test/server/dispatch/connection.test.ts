import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { WebSocket } from 'ws';
import { revokeRunner } from '../../../src/server/auth/runners.ts';
import { randomName } from '../../../src/shared/lib/random-name.ts';
import { connectionPath, protocolHeader, protocolNumber } from '../../../src/shared/protocol/index.ts';
import { RefusedError } from '../../../src/runner/failures.ts';
import { RawRunner } from '../../support/raw-runner.ts';
import { authorityOf, keepClaim, registered } from '../../support/registered.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import type { User } from '../../support/user.ts';

const patient = new AbortController().signal;

describeServiceOnOne('the connection of a runner', (service) => {
  let alice: User;
  before(async () => {
    alice = await service.user();
  });
  const unfetchable = { kind: 'unfetchable', reason: 'x' } as const;

  test('brings what comes: looks and orders, and the same order again to who asks again', async () => {
    const { link } = await registered(service);
    const looks = link.polls({ room: 1 }, patient);
    const claim = randomName();
    const order = link.next({ claim }, patient);
    const polled = await alice.createProject({ poll_interval: '60' });
    assert.deepEqual(
      (await looks).map(({ source }) => source.projectId),
      [String(polled.id)],
    );
    await alice.requestBuild(await alice.createProject());
    const { work } = (await order) ?? assert.fail();
    assert.equal(work.kind, 'fetch_commit');
    assert.deepEqual((await link.next({ claim }, patient))?.work, work);
    await link.finish({ claim, outcome: unfetchable, logSize: 0 }, patient);
    assert.equal(await link.next({ claim: randomName(), holdMs: 0 }, patient), undefined);
    link.close();
  });

  test('ends within a moment when the token is revoked, and one beside it goes on [promise: runner-tokens]', async () => {
    const { db } = service.store;
    const [bad, good] = [await registered(service), await registered(service)];
    const refused = [
      assert.rejects(bad.link.next({ claim: randomName() }, patient), RefusedError),
      assert.rejects(bad.link.polls({ room: 1 }, patient), RefusedError),
    ];
    const waiting = good.link.next({ claim: randomName() }, patient);
    await good.link.gone({ projects: [] }, patient);
    await bad.link.gone({ projects: [] }, patient);
    await db.transaction((trx) => revokeRunner(trx, bad.name));
    await Promise.all(refused);
    await alice.requestBuild(await alice.createProject());
    const { claim } = (await waiting) ?? assert.fail();
    await good.link.finish({ claim, outcome: unfetchable, logSize: 0 }, patient);
    bad.link.close();
    good.link.close();
  });

  test('is watched by the kernel, so that a machine that vanished is noticed', async () => {
    const { link } = await registered(service);
    await link.gone({ projects: [] }, patient);
    while (!timersOf(Number(new URL(service.address).port)).includes(keepAlive)) await pause(10);
    link.close();
  });

  test('holds few bytes of calls that wait for their answers [promise: bounds]', async () => {
    const { token, link } = await registered(service);
    const raw = await RawRunner.open(service, token);
    const wait = () => raw.call('extend', { claims: [], more: 'x'.repeat(1_000_000) });
    const full = { status: 503, error: { generic: ['resource_temporary_unavailable'] } };
    let isFull = false;
    // A slow machine sends them so slowly that the first one has waited long enough before the last one comes.
    const ask = async (): Promise<void> => {
      for (let times = 0; times < 20 && !isFull; times += 1) {
        const answered = await wait();
        assert.deepEqual(answered, 'status' in answered ? full : { answer: {} });
        isFull ||= 'status' in answered;
      }
    };
    await Promise.all(Array.from({ length: 9 }, ask));
    assert.ok(isFull, 'the ninth is refused');
    assert.deepEqual(await wait(), { answer: {} }, 'there is room again');
    raw.close();
    link.close();
  });

  test('lets a place be taken back, by the runner that has it alone', async () => {
    const [one, other] = [await registered(service), await registered(service)];
    const claim = randomName();
    let isAnswered = false;
    const waiting = one.link.next({ claim }, patient).finally(() => (isAnswered = true));
    await one.link.gone({ projects: [] }, patient);
    await other.link.leave({ claims: [claim] }, patient);
    await one.link.gone({ projects: [] }, patient); // what was to be answered is by now
    assert.equal(isAnswered, false);
    await one.link.leave({ claims: [claim] }, patient);
    assert.equal(await waiting, undefined);
    one.link.close();
    other.link.close();
  });

  test('is not read while the store is busy with what came over it [promise: bounds]', async () => {
    const { token, link } = await registered(service);
    await alice.requestBuild(await alice.createProject());
    const { claim } = (await link.next({ claim: randomName() }, patient)) ?? assert.fail();
    await keepClaim(service, claim);
    const raw = await RawRunner.open(service, token);
    const chunk = Buffer.alloc(1024 * 1024, 'x');
    const many = 64;
    const locked = Promise.withResolvers<void>();
    const done = Promise.withResolvers<void>();
    const busy = service.store.db.transaction(async (trx) => {
      await trx.updateTable('logs').set({ size: 0n }).execute();
      await trx.updateTable('jobs').set({ cancelled: 0 }).where('claim', '=', claim).execute();
      locked.resolve();
      await done.promise;
    });
    await locked.promise;
    const answers: Promise<unknown>[] = [];
    const sending = (async () => {
      while (answers.length < many) {
        answers.push(raw.call('log', { claim, offset: 0 }, chunk));
        while (raw.socket.bufferedAmount > 0) await pause(5);
      }
    })();
    // What the server does not read stops what is sent, but for what fits between the two.
    for (let sent = -1; answers.length > sent && answers.length < many;) {
      sent = answers.length;
      await pause(1000);
    }
    const read = answers.length;
    done.resolve();
    await busy;
    await sending;
    assert.ok(read < many / 2, `${read} MB were read`);
    for (const answer of await Promise.all(answers)) assert.deepEqual(answer, { answer: { taken: true } });
    await link.finish({ claim, outcome: unfetchable, logSize: chunk.length }, patient);
    raw.close();
    link.close();
  });

  test('is refused before it is one to who has no token, and answered in the form of the API [promise: runner-tokens]', async () => {
    for (const headers of [{}, { authorization: 'Bearer hrr_guess' }]) {
      const socket = new WebSocket(`${service.address}${connectionPath}`, { headers, ca: authorityOf(service) });
      const [, response] = (await once(socket, 'unexpected-response')) as [
        unknown,
        NodeJS.ReadableStream & { statusCode: number },
      ];
      const pieces: Buffer[] = [];
      for await (const piece of response) pieces.push(piece as Buffer);
      assert.deepEqual(
        [response.statusCode, JSON.parse(Buffer.concat(pieces).toString())],
        [401, { error: { generic: ['unauthorized'] } }],
      );
      socket.on('error', () => {}).terminate();
    }
    const { token, link } = await registered(service);
    link.close();
    const answer = await service.api.get(connectionPath, {
      headers: { authorization: `Bearer ${token}`, [protocolHeader]: protocolNumber },
    });
    assert.deepEqual([answer.status, answer.body], [426, { error: { upgrade: ['invalid_format'] } }]);
  });
});

/** What the kernel waits for on the connections to a port of this machine, as /proc/net/tcp tells it. */
function timersOf(port: number): string[] {
  const lines = readFileSync('/proc/net/tcp', 'utf8').split('\n').slice(1);
  const own = lines.map((line) => line.trim().split(/\s+/)).filter(([, local]) => local?.endsWith(`:${hex(port)}`));
  return own.map((fields) => fields[5]?.split(':')[0] ?? '');
}
const keepAlive = '02';
const hex = (port: number): string => port.toString(16).toUpperCase().padStart(4, '0');
