import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { collectBlobs } from '../../../src/server/software/collect.ts';
import type { SuiteOrder } from '../../../src/shared/protocol/index.ts';
import type { Record_ } from '../../support/client.ts';
import { compiled, compiling, compilingAgain } from '../../support/compiling.ts';
import { assertDestroyed, assertNotFound, assertRefused } from '../../support/expect.ts';
import { describeWithRunner } from '../../support/runner.ts';
import type { User } from '../../support/user.ts';

/** What a build is given of its dependencies. */
type Given = Pick<SuiteOrder, 'software' | 'prefixes' | 'launches'>;

describeWithRunner('another account’s dependency', (service, runner) => {
  let alice: User;
  let mallory: User;
  before(async () => {
    [alice, mallory] = [await service.user(), await service.user()];
  });

  const install = (prefix: string): Record<string, string> => ({ prefix, command: `make install PREFIX=${prefix}` });
  /** A dependency that is compiled, and the digest of its result. */
  const made = async (owner: User, content: string, fields: Record<string, string> = {}) => {
    const { dependency, task, path } = await compiling(owner, runner, fields);
    return { dependency, path, digest: await compiled(runner, task, content) };
  };
  const shared = async (owner: User, content: string, fields: Record<string, string> = {}) => {
    const one = await made(owner, content, fields);
    assert.equal((await owner.post(`${one.path}/share`)).status, 200);
    return one;
  };
  const again = async (owner: User, dependency: Record_, content: string): Promise<string> =>
    compiled(runner, (await compilingAgain(owner, runner, dependency)).task, content);

  /** A suite of a project with this attached. */
  const using = async (user: User, dependency: Record_) => {
    const project = await user.createProject();
    const suite = await user.createSuite(project);
    const path = `/projects/${project.id}/suites/${suite.id}/dependencies`;
    const answer = await user.post(path, { dependency_id: dependency.id });
    assert.equal(answer.status, 201, answer.text);
    const given = async (): Promise<Given> => {
      await user.requestBuild(project);
      const fetch = await runner.take('fetch_commit');
      await fetch.fetched({ sha: String(service.store.ids.next()).padStart(40, '0') });
      const task = await runner.take('run_suite');
      await task.exit(0);
      const { software, prefixes, launches } = task.order.work;
      return { software, prefixes, launches };
    };
    return { project, path, attached: answer.record, given, listed: async () => (await user.get(path)).list[0] };
  };
  /** Everything that is there by now is old enough. */
  const collect = (): Promise<number> => collectBlobs(service.store.db, service.store.blobs, -1000);
  const isStored = (digest: string): boolean => existsSync(join(service.folder, 'blobs', digest.slice(0, 2), digest));

  test('stays what it was when it was attached, whatever its owner does to it', async () => {
    const below = await made(mallory, 'below, good', install('/opt/below'));
    const related = { 'related_dependencies[]': String(below.dependency.id) };
    const tool = await shared(mallory, 'tool, good', { ...install('/opt/tool'), launch_command: 'tool-d', ...related });
    const suite = await using(alice, tool.dependency);
    assert.equal(suite.attached.update_available, false);
    const good = await suite.given();
    assert.deepEqual(good, {
      software: [
        { digest: below.digest, prefix: '/opt/below' },
        { digest: tool.digest, prefix: '/opt/tool' },
      ],
      prefixes: ['/opt/tool', '/opt/below'],
      launches: [{ name: tool.dependency.name, command: 'tool-d' }],
    });

    // Every way there is to change what runs.
    const change = (path: string, fields: Record<string, string>) => mallory.put(path, fields);
    const evil = await made(mallory, 'evil', { ...install('/opt/evil'), launch_command: 'steal' });
    const attacks: [string, () => Promise<unknown>][] = [
      ['the launch command', () => change(tool.path, { launch_command: 'env | steal' })],
      ['a new archive', () => again(mallory, tool.dependency, 'tool, evil')],
      ['the prefix', () => change(tool.path, install('/opt/alice'))],
      ['a compile for it', () => again(mallory, tool.dependency, 'tool, evil elsewhere')],
      ['what lies below', () => again(mallory, below.dependency, 'below, evil')],
      ['where that lies', () => change(below.path, install('/opt/alice-too'))],
      ['a compile for that', () => again(mallory, below.dependency, 'below, evil elsewhere')],
      ['more below', () => change(tool.path, { 'related_dependencies[]': String(evil.dependency.id) })],
      ['the name', () => change(tool.path, { name: 'tool; steal' })],
    ];
    for (const [what, attack] of attacks) {
      await attack();
      assert.deepEqual(await suite.given(), good, what);
    }
    const shown = await suite.listed();
    assert.deepEqual(
      [shown?.prefix, shown?.launch_command, shown?.update_available, shown?.name],
      ['/opt/tool', 'tool-d', true, 'tool; steal'],
    );

    // The bytes stay as long as somebody is pinned to them, also those of what is gone.
    assertDestroyed(await mallory.delete(below.path));
    await collect();
    for (const digest of [below.digest, tool.digest]) assert.ok(isStored(digest));
    assert.deepEqual(await suite.given(), good);

    // Who wants what is new says so.
    const moved = await alice.post(`${suite.path}/${tool.dependency.id}/update`);
    assert.equal(moved.status, 200, moved.text);
    assert.deepEqual(
      [moved.record.prefix, moved.record.launch_command, moved.record.update_available],
      ['/opt/alice', 'env | steal', false],
    );
    assert.deepEqual(await suite.listed(), moved.record);
    const now = await suite.given();
    assert.deepEqual(now.prefixes, ['/opt/alice', '/opt/evil']);
    assert.deepEqual(now.launches, [{ name: 'tool; steal', command: 'env | steal' }]);
    assert.notEqual(now.software[1]?.digest, tool.digest);
    await collect();
    for (const digest of [below.digest, tool.digest]) assert.ok(!isStored(digest), 'and nobody needs the old ones');
    assertDestroyed(await alice.delete(`${suite.path}/${tool.dependency.id}`));
    assert.deepEqual(await service.store.db.read.selectFrom('dependency_pins').selectAll().execute(), []);
  });

  test('is kept by those who have it when it is taken back, and is not deleted under them', async () => {
    const tool = await shared(mallory, 'taken back, old', install('/opt/tool'));
    const suite = await using(alice, tool.dependency);
    const old = await suite.given();
    await again(mallory, tool.dependency, 'taken back, new');
    assert.equal((await suite.listed())?.update_available, true);
    assert.equal((await mallory.post(`${tool.path}/unshare`)).status, 200);
    assert.deepEqual(await suite.given(), old);
    assert.equal((await suite.listed())?.update_available, false);
    assertNotFound(await alice.post(`${suite.path}/${tool.dependency.id}/update`));
    assert.deepEqual(await suite.given(), old);
    assertRefused(await mallory.delete(tool.path), 403, { generic: ['resource_temporary_unavailable'] });
    assertNotFound(await alice.get(tool.path));
    await mallory.post(`${tool.path}/share`);
    assert.equal((await alice.get(tool.path)).record.name, tool.dependency.name, 'everybody may look at a shared one');
    assertNotFound(await alice.put(tool.path, { name: 'mine' }));
  });

  test('is another’s by the account that owns the project, whoever attached it', async () => {
    const [owners, collaborators] = [await made(alice, 'owner’s'), await shared(mallory, 'collaborator’s')];
    const project = await alice.createProject();
    await alice.invite(project, mallory);
    const suite = await alice.createSuite(project);
    const path = `/projects/${project.id}/suites/${suite.id}/dependencies`;
    for (const { dependency } of [owners, collaborators]) await mallory.post(path, { dependency_id: dependency.id });
    await alice.put(owners.path, { launch_command: 'followed' });
    await mallory.put(collaborators.path, { launch_command: 'not followed' });
    const seen = (await mallory.get(path)).list.map((one) => [one.launch_command, one.update_available]);
    assert.deepEqual(seen, [
      ['followed', false],
      ['', true],
    ]);
    for (const { dependency } of [owners, collaborators]) {
      assert.equal((await mallory.post(`${path}/${dependency.id}/update`)).record.update_available, false);
    }
    assertNotFound(await alice.post(`${path}/17/update`));
    const odd = await alice.post(`${path}/${collaborators.dependency.id}/update`, { nonsense: 'x' });
    assert.ok(odd.status < 500, odd.text);
  });

  test('is pinned where one’s own is compiled against it, and naming it again lets nothing in', async () => {
    const base = await shared(mallory, 'base, good', install('/opt/base'));
    const related = { 'related_dependencies[]': String(base.dependency.id) };
    const own = await made(alice, 'own', { ...install('/opt/own'), ...related });
    const suite = await using(alice, own.dependency);
    const good = await suite.given();
    assert.deepEqual(good.software[0], { digest: base.digest, prefix: '/opt/base' });
    await again(mallory, base.dependency, 'base, evil');
    await mallory.put(base.path, install('/opt/alice'));
    await again(mallory, base.dependency, 'base, evil elsewhere');
    await mallory.post(`${base.path}/unshare`);
    assert.equal((await alice.put(own.path, { description: 'mine', ...related })).status, 200);
    assert.deepEqual(await suite.given(), good);
    await collect();
    assert.ok(isStored(base.digest));
    const { task } = await compilingAgain(alice, runner, own.dependency);
    assert.deepEqual(task.order.work.software, [{ digest: base.digest, prefix: '/opt/base' }]);
    await compiled(runner, task, 'own');

    // A third account that uses it gets the same base, pinned with it.
    await alice.post(`${own.path}/share`);
    const third = await using(await service.user(), own.dependency);
    assert.deepEqual((await third.given()).software, good.software);
    // Taken off and named anew, it is what it is now; the third goes on as before.
    await mallory.post(`${base.path}/share`);
    await alice.api.put(own.path, { as: alice.credentials, json: { related_dependencies: [] } });
    await alice.put(own.path, related);
    assert.equal((await suite.given()).software[0]?.prefix, '/opt/alice');
    assert.deepEqual((await third.given()).software, good.software);
    assert.equal((await third.listed())?.update_available, true);
  });
});
