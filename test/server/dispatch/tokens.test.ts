import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { randomName } from '../../../src/shared/lib/random-name.ts';
import type { Link, Order } from '../../../src/shared/protocol/index.ts';
import { RefusedError } from '../../../src/runner/failures.ts';
import { headrace } from '../../support/program.ts';
import { linkWith, registered } from '../../support/registered.ts';
import { describeService } from '../../support/service.ts';
import { archiveOf } from '../../support/software.ts';
import type { User } from '../../support/user.ts';

const patient = new AbortController().signal;

async function* content(): AsyncGenerator<Buffer> {
  yield Buffer.from('x');
}

describeService('the token of a runner', (service, database) => {
  let alice: User;
  before(async () => {
    alice = await service.user();
  });

  /** The command is another process, as it is for an operator. */
  const admin = async (...args: string[]): Promise<Record<string, string>> => {
    const url = service.config.database_url;
    const env = database.kind === 'postgres' ? { HEADRACE_DATABASE_URL: url ?? '' } : {};
    const { stdout, stderr } = await headrace(['admin', 'runner', ...args, '--data-dir', service.folder], env);
    assert.match(stdout.toString(), /^\{.*\}\n$/, stderr.toString());
    return JSON.parse(stdout.toString()) as Record<string, string>;
  };
  const upload = async (): Promise<void> => {
    await alice.upload(await alice.createDependency(), await archiveOf({ hello: 'hello\n' }));
  };
  const next = async (link: Link): Promise<Order> => {
    for (;;) {
      const order = await link.next({ claim: randomName() }, patient);
      if (order) return order;
    }
  };
  const finish = (link: Link, { claim }: Order, logSize = 0) =>
    link.finish({ claim, outcome: { kind: 'uncompilable' }, logSize }, patient);
  /** Everything that a runner can ask for. */
  const assertRefused = async (link: Link, { claim, work }: Order): Promise<void> => {
    assert.ok(work.kind === 'compile_dependency');
    const everything = [
      link.next({ claim: randomName() }, patient),
      link.next({ claim }, patient),
      link.extend({ claims: [claim] }, patient),
      link.log({ claim, offset: 0, bytes: Buffer.from('still here\n') }, patient),
      finish(link, { claim, work, logOffset: 0, logLimit: 0 }),
      link.read(work.archive.digest, 0, patient),
      link.store(claim, content(), patient),
      link.access({ claim }, patient),
    ];
    await Promise.all(everything.map((call) => assert.rejects(call, RefusedError)));
  };

  /** What is held ends without news after a while, and is asked again until the token is worth nothing. */
  const refusedInTheEnd = async (ask: () => Promise<unknown>): Promise<void> => {
    for (;;) {
      try {
        await ask();
      } catch (error) {
        if (error instanceof RefusedError) return;
        throw error;
      }
    }
  };

  test('that is revoked opens nothing at once, also for what is held, and others do its work [promise: runner-tokens]', async () => {
    const [bad, good] = [await registered(service), await registered(service)];
    await upload();
    const order = await next(bad.link);
    const ended = Promise.all([
      refusedInTheEnd(() => bad.link.next({ claim: randomName() }, patient)),
      refusedInTheEnd(() => bad.link.extend({ claims: [order.claim] }, patient)),
    ]);
    assert.deepEqual(await admin('revoke', bad.name), { name: bad.name, revoked: true });
    await ended;
    await assertRefused(bad.link, order);

    const again = await next(good.link);
    assert.deepEqual(again.work, order.work);
    await assertRefused(bad.link, again);
    assert.deepEqual(await finish(good.link, again, again.logOffset), { taken: true });
    bad.link.close();
    good.link.close();
  });

  test('that is replaced opens nothing at once, and the new one does', async () => {
    const { name, token, link } = await registered(service);
    await upload();
    const order = await next(link);
    const held = refusedInTheEnd(() => link.extend({ claims: [order.claim] }, patient));
    const rotated = await admin('rotate', name);
    assert.deepEqual(Object.keys(rotated), ['name', 'token']);
    assert.notEqual(rotated.token, token);
    await held;
    await assertRefused(link, order);
    const fresh = linkWith(service, rotated.token ?? '');
    // What was done under the old one is lost, also to whoever has the new one.
    assert.deepEqual(await finish(fresh, order), { gone: true });
    const again = await next(fresh);
    assert.notEqual(again.claim, order.claim);
    assert.deepEqual(await finish(fresh, again, again.logOffset), { taken: true });
    fresh.close();
    link.close();
  });

  test('gets no more than the work of the accounts that it is for', async () => {
    const bob = await service.user();
    const bound = await registered(service, [bob]);
    await upload();
    const project = await bob.createProject();
    await bob.requestBuild(project);
    const order = await next(bound.link);
    assert.ok(order.work.kind === 'fetch_commit');
    assert.equal(order.work.source.projectId, String(project.id));
    const outcome = { kind: 'unfetchable', reason: 'x' } as const;
    // What is another account's waits for others.
    const report = { claim: order.claim, outcome, logSize: order.logOffset };
    assert.deepEqual(await bound.link.finish(report, patient), { taken: true });
    assert.equal(await bound.link.next({ claim: randomName(), holdMs: 0 }, patient), undefined);
    const free = await registered(service);
    const waiting = await next(free.link);
    assert.equal(waiting.work.kind, 'compile_dependency');
    await finish(free.link, waiting, waiting.logOffset);
    bound.link.close();
    free.link.close();
  });
});
