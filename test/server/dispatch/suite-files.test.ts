import assert from 'node:assert/strict';
import { test } from 'node:test';
import { randomName } from '../../../src/shared/lib/random-name.ts';
import type { Link, Order, SuiteOrder, Wish } from '../../../src/shared/protocol/index.ts';
import type { FinishReport } from '../../../src/shared/protocol/outcomes.ts';
import type { Record_ } from '../../support/client.ts';
import { registered } from '../../support/registered.ts';
import { aCommit } from '../../support/runner.ts';
import { describeServiceOnOne } from '../../support/service.ts';
import type { User } from '../../support/user.ts';

const patient = new AbortController().signal;

async function* content(): AsyncGenerator<Buffer> {
  yield Buffer.from('files\n');
}

describeServiceOnOne('files of a suite that a bound runner hands in', (service) => {
  /** A project whose second suite begins with the files of the first, and a build that is asked for. */
  const begin = async (user: User): Promise<Record_> => {
    const project = await user.createProject();
    const first = await user.createSuite(project, { name: 'first' });
    await user.createSuite(project, { name: 'second', 'needs[]': first.id_str, files_from_id: first.id_str });
    await user.requestBuild(project);
    return project;
  };
  const next = async (link: Link, kind: Order['work']['kind'], wish: Partial<Wish> = {}): Promise<Order> => {
    const order = await link.next({ claim: randomName(), ...wish }, patient);
    assert.equal(order?.work.kind, kind);
    return order ?? assert.fail();
  };
  const nothingFor = async (link: Link, wish: Partial<Wish>): Promise<void> =>
    assert.equal(await link.next({ claim: randomName(), holdMs: 0, ...wish }, patient), undefined);
  const finish = (link: Link, { claim, logOffset }: Order, report: Pick<FinishReport, 'outcome' | 'kept'>) =>
    link.finish({ claim, logSize: logOffset, ...report }, patient);
  const passed = { kind: 'exited', status: 0 } as const;
  const taken = { taken: true };

  test('reach builds of its own accounts alone, whatever it says whose they are [promise: suite-files]', async () => {
    const [alice, mallory] = [await service.user(), await service.user()];
    const [ours, bound] = [await registered(service), await registered(service, [mallory])];
    const here = { location: randomName() };
    const kept = { ...here, name: randomName(), key: 'a'.repeat(64) };
    const project = await begin(alice);
    const fetched = { kind: 'fetched', commit: aCommit } as const;
    assert.deepEqual(await finish(ours.link, await next(ours.link, 'fetch_commit'), { outcome: fetched }), taken);
    const first = await next(ours.link, 'run_suite');

    // It has no say in a build of another account, also where it has learnt the name of the claim.
    const forged = { ...kept, name: randomName() };
    assert.deepEqual(await finish(bound.link, first, { outcome: passed, kept: forged }), { gone: true });
    assert.deepEqual(await bound.link.store(first.claim, content(), patient), { gone: true });
    assert.deepEqual(await finish(ours.link, first, { outcome: passed, kept }), taken);
    await nothingFor(bound.link, here);

    // For its own account it says that the files are those which the other runner keeps of the other account.
    const theirs = await begin(mallory);
    assert.deepEqual(await finish(bound.link, await next(bound.link, 'fetch_commit'), { outcome: fetched }), taken);
    const claimed = { ...kept, key: 'b'.repeat(64) };
    assert.deepEqual(
      await finish(bound.link, await next(bound.link, 'run_suite'), { outcome: passed, kept: claimed }),
      taken,
    );
    const second = await next(ours.link, 'run_suite', here);
    const { environment, files } = second.work as SuiteOrder;
    assert.equal(environment.HEADRACE_PROJECT_ID, project.id_str);
    assert.deepEqual(files?.kept, { name: kept.name, key: kept.key });
    assert.deepEqual(await finish(ours.link, second, { outcome: passed }), taken);
    await nothingFor(ours.link, here);

    // When nobody who has the files took it in time, any runner may: this one has to wait until they are packed.
    await service.store.db.transaction((trx) =>
      trx.updateTable('jobs').set({ run_after: 0n }).where('kind', '=', 'run_suite').execute(),
    );
    await nothingFor(ours.link, here);
    const turns = service.store.db.read.selectFrom('queue_turns').selectAll().orderBy('account_id');
    const before = await turns.execute();
    await nothingFor(ours.link, here);
    assert.deepEqual(await turns.execute(), before, 'nothing was taken and given back meanwhile');
    const pack = await next(bound.link, 'pack_files', here);
    // A blob that it did not store under this claim is none.
    const blob = await service.store.blobs.put(content());
    assert.deepEqual(await finish(bound.link, pack, { outcome: { kind: 'packed', digest: blob.digest } }), taken);
    await nothingFor(ours.link, here);
    const own = (await next(bound.link, 'run_suite', here)).work as SuiteOrder;
    assert.equal(own.environment.HEADRACE_PROJECT_ID, theirs.id_str);
    assert.deepEqual([own.files?.suite, own.files?.kept], ['first', { name: claimed.name, key: claimed.key }]);
    ours.link.close();
    bound.link.close();
  });

  test('are packed before it leaves, and another one begins with them', async () => {
    const carol = await service.user();
    const [leaving, other] = [await registered(service, [carol]), await registered(service, [carol])];
    const here = { location: randomName() };
    await begin(carol);
    const fetched = { kind: 'fetched', commit: aCommit } as const;
    assert.deepEqual(await finish(leaving.link, await next(leaving.link, 'fetch_commit'), { outcome: fetched }), taken);
    const kept = { ...here, name: randomName(), key: 'c'.repeat(64), isLeaving: true };
    const first = await next(leaving.link, 'run_suite');
    assert.deepEqual(await finish(leaving.link, first, { outcome: passed, kept }), taken);
    const pack = await next(leaving.link, 'pack_files', { ...here, isLeaving: true });
    const stored = await leaving.link.store(pack.claim, content(), patient);
    const digest = 'digest' in stored ? stored.digest : assert.fail();
    assert.deepEqual(await finish(leaving.link, pack, { outcome: { kind: 'packed', digest } }), taken);
    leaving.link.close();
    const { files } = (await next(other.link, 'run_suite', { location: randomName() })).work as SuiteOrder;
    assert.equal(files?.packed?.digest, digest);
    other.link.close();
  });
});
