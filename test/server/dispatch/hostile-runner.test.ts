import assert from 'node:assert/strict';
import { before, beforeEach, afterEach, test } from 'node:test';
import { randomName } from '../../../src/shared/lib/random-name.ts';
import type { Order, SuiteOrder } from '../../../src/shared/protocol/index.ts';
import { RejectedError } from '../../../src/runner/failures.ts';
import { registered, type Registered } from '../../support/registered.ts';
import { aCommit } from '../../support/runner.ts';
import { describeService } from '../../support/service.ts';
import { archiveOf } from '../../support/software.ts';
import type { User } from '../../support/user.ts';

const patient = new AbortController().signal;

async function* piecesOf(text: string): AsyncGenerator<Buffer> {
  yield Buffer.from(text);
}

describeService('a runner that wants more than its due', (service) => {
  let alice: User;
  let honest: Registered;
  let hostile: Registered;
  before(async () => {
    alice = await service.user();
  });
  beforeEach(async () => {
    [honest, hostile] = [await registered(service), await registered(service)];
  });
  afterEach(() => {
    honest.link.close();
    hostile.link.close();
  });

  const compile = async ({ link }: Registered, said: string) => {
    const dependency = await alice.createDependency();
    await alice.upload(dependency, await archiveOf({ said }));
    const order = (await link.next({ claim: randomName() }, patient)) ?? assert.fail();
    assert.ok(order.work.kind === 'compile_dependency');
    return { order, digest: order.work.archive.digest, path: `/dependencies/${dependency.id}` };
  };
  const runSuite = async ({ link }: Registered) => {
    const project = await alice.createProject();
    const suite = await alice.createSuite(project);
    await alice.createVariable(project, suite, { name: 'SECRET', content: 'correct horse' });
    await alice.requestBuild(project);
    const fetching = (await link.next({ claim: randomName() }, patient)) ?? assert.fail();
    const outcome = { kind: 'fetched', commit: aCommit } as const;
    await link.finish({ claim: fetching.claim, outcome, logSize: 0 }, patient);
    const order = (await link.next({ claim: randomName() }, patient)) ?? assert.fail();
    assert.equal(order.work.kind, 'run_suite');
    return order as Order & { work: SuiteOrder };
  };
  const jobOf = async (claim: string) =>
    service.store.db.read.selectFrom('jobs').selectAll().where('claim', '=', claim).executeTakeFirst();

  test('can do nothing under the claim of another', async () => {
    const { order, digest, path } = await compile(honest, 'one');
    const { claim } = order;
    const before = await jobOf(claim);
    const { link } = hostile;
    assert.equal(await link.read(digest, 0, patient), undefined);
    assert.deepEqual(await link.log({ claim, offset: 0, bytes: Buffer.from('forged\n') }, patient), { gone: true });
    assert.deepEqual(await link.extend({ claims: [claim] }, patient), { [claim]: 'gone' });
    assert.deepEqual(await link.store(claim, piecesOf('forged'), patient), { gone: true });
    assert.equal(await link.access({ claim }, patient), undefined);
    assert.equal(await link.next({ claim }, patient), undefined);
    for (const outcome of [{ kind: 'uncompilable' }, { kind: 'lost', message: 'x' }] as const)
      assert.deepEqual(await link.finish({ claim, outcome, logSize: 0 }, patient), { gone: true });
    assert.deepEqual(await jobOf(claim), before);
    assert.equal((await alice.get(path)).record.marketplace_state, 'compiling');
    assert.equal((await alice.get(`${path}/log.txt`)).text, '');
    await honest.link.finish({ claim, outcome: { kind: 'uncompilable' }, logSize: 0 }, patient);
  });

  test('reads only what an order names that it holds', async () => {
    const theirs = await compile(honest, 'theirs');
    const mine = await compile(hostile, 'mine');
    assert.ok(await hostile.link.read(mine.digest, 0, patient));
    assert.equal(await hostile.link.read(theirs.digest, 0, patient), undefined);
    assert.equal(await honest.link.read(mine.digest, 0, patient), undefined);
    for (const { link, order } of [
      { ...honest, ...theirs },
      { ...hostile, ...mine },
    ])
      await link.finish({ claim: order.claim, outcome: { kind: 'uncompilable' }, logSize: 0 }, patient);
    assert.equal(await hostile.link.read(mine.digest, 0, patient), undefined);
  });

  test('cannot pass off what it did not make as its result', async () => {
    const theirs = await compile(honest, 'a secret source');
    const mine = await compile(hostile, 'a pretext');
    const { claim } = mine.order;
    const naming = (digest: string) =>
      hostile.link.finish({ claim, outcome: { kind: 'compiled', digest }, logSize: 0 }, patient);
    await assert.rejects(naming(theirs.digest), RejectedError);
    await assert.rejects(naming(mine.digest), RejectedError);
    const stored = await hostile.link.store(claim, piecesOf('made here'), patient);
    assert.ok('digest' in stored);
    await assert.rejects(naming(theirs.digest), RejectedError);
    assert.deepEqual(await naming(stored.digest), { taken: true });
    assert.deepEqual(await hostile.link.store(claim, piecesOf('too late'), patient), { gone: true });
    await honest.link.finish({ claim: theirs.order.claim, outcome: { kind: 'uncompilable' }, logSize: 0 }, patient);
  });

  test('gets the key of a project under the claim that needs it alone, and not with the order', async () => {
    const order = await runSuite(honest);
    const { claim } = order;
    assert.doesNotMatch(JSON.stringify(order), /PRIVATE KEY/);
    assert.deepEqual(order.work.secrets, ['correct horse']);
    assert.match((await honest.link.access({ claim }, patient))?.privateKey ?? '', /PRIVATE KEY/);
    assert.equal(await hostile.link.access({ claim }, patient), undefined);
    await assert.rejects(
      honest.link.finish({ claim, outcome: { kind: 'pushed' }, logSize: 0 }, patient),
      RejectedError,
      'a suite is not pushed',
    );
    assert.deepEqual(await honest.link.store(claim, piecesOf('a suite stores nothing'), patient), { gone: true });
    await honest.link.finish({ claim, outcome: { kind: 'exited', status: 0 }, logSize: 0 }, patient);
    assert.equal(await honest.link.access({ claim }, patient), undefined);
    const late = { claim, offset: 0, bytes: Buffer.from('late\n') };
    assert.deepEqual(await honest.link.log(late, patient), { gone: true });
    assert.deepEqual(await honest.link.extend({ claims: [claim] }, patient), { [claim]: 'gone' });
  });
});
