import assert from 'node:assert/strict';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { onOneDatabase } from '../support/databases.ts';
import { deploying, startTarget, type DeployTarget } from '../support/deploying.ts';
import { growingPauses } from '../support/pauses.ts';
import { startInstallation, type Installation, type Item, type Project } from '../support/installation.ts';
import { waitingHook } from '../support/waiting-hook.ts';

/** A real server and runner push to a real repository on a second host. */
onOneDatabase((database) => {
  let installation: Installation;
  let project: Project;
  let target: DeployTarget;
  let person: ReturnType<typeof deploying>;
  before(async () => {
    installation = await startInstallation(database);
    project = await installation.project();
    target = await startTarget(installation, database);
    await target.host.authorize(project.publicKey);
    person = deploying(project, target);
    await project.api().post(`${project.path}/suites`, { name: 'unit', command: 'true' });
  });

  /** A new commit on a branch, built and passed. */
  const built = async (on = 'main', after?: string): Promise<Item & { ref: string }> => {
    const ref = await project.repository.commit({ on, ...(after === undefined ? {} : { after }) });
    assert.equal((await project.build(on)).build_state, 'passed');
    const [commit] = await project.commits();
    assert.equal(commit?.ref, ref);
    return { ...commit, ref };
  };

  test('the key is asked for first; then the newest commit that passed goes out, and again without harm', async () => {
    const { ref } = await built();
    const strategy = await person.strategy('first');
    await target.host.revoke(project.publicKey);
    const refused = await person.deploy(strategy);
    assert.equal(refused.state, 'failed');
    const words = await person.log(refused);
    assert.match(words, /Permission denied \(publickey\)/, 'what ssh said');
    assert.match(words, /`ssh_public_key` of GET [^]*fingerprint is SHA256:/, 'and what to do about it');
    assert.ok(!words.includes(project.publicKey));
    await target.host.authorize(project.publicKey);
    const done = await person.deploy(strategy);
    assert.equal(done.state, 'deployed', await person.log(done));
    assert.ok(done.deploy_started_at !== null && done.deploy_finished_at !== null);
    assert.equal(await target.repository.sha('first'), ref);
    const again = await person.deploy(strategy);
    assert.equal(again.state, 'deployed');
    assert.match(await person.log(again), /already/);
  });

  test('a commit that does not lie on the local branch stays at home', async () => {
    const main = await built();
    const side = await built('side', main.ref);
    const strategy = await person.strategy('guarded');
    const refused = await person.deploy(strategy, side);
    assert.equal(refused.state, 'failed');
    assert.match(await person.log(refused), /is not on the branch “main”/);
    assert.equal((await person.deploy(strategy, main)).state, 'deployed');
    assert.equal(await target.repository.sha('guarded'), main.ref);
  });

  test('a hook that refuses is heard in its own words', async () => {
    const commit = await built();
    const hook = join(target.repository.folder, 'hooks', 'pre-receive');
    await writeFile(hook, '#!/bin/sh\necho "no deploys on Fridays" >&2\nexit 1\n', { mode: 0o755 });
    const refused = await person.deploy(await person.strategy('fridays'), commit);
    await rm(hook);
    assert.equal(refused.state, 'failed');
    assert.match(await person.log(refused), /remote: no deploys on Fridays[\s\S]*pre-receive hook declined/);
  });

  test('nothing of theirs is overwritten', async () => {
    const strategy = await person.strategy('theirs');
    assert.equal((await person.deploy(strategy, await built())).state, 'deployed');
    const theirs = await target.repository.commit({ on: 'theirs' });
    const refused = await person.deploy(strategy, await built());
    assert.equal(refused.state, 'failed');
    assert.match(await person.log(refused), /not a fast-forward/);
    assert.equal(await target.repository.sha('theirs'), theirs);
  });

  test('two to one branch go one after the other, while builds go on', async () => {
    const [older, newer] = [await built(), await built()];
    const strategy = await person.strategy('busy');
    const hook = await waitingHook(target.repository);
    const first = await person.ask(strategy, older);
    await hook.begins(1);
    const second = await person.ask(strategy, newer);
    await built();
    assert.equal(await hook.count(), 1);
    assert.deepEqual([(await person.look(first)).state, (await person.look(second)).state], ['deploying', 'enqueued']);
    await hook.letGo();
    const ends = [await person.end(first), await person.end(second)] as const;
    await hook.remove();
    assert.deepEqual(
      ends.map(({ state }) => state),
      ['deployed', 'deployed'],
    );
    assert.ok(String(ends[0].deploy_finished_at) <= String(ends[1].deploy_started_at));
    const moves = await target.repository.git(['log', '--format=%H', '--max-count=2', 'busy']);
    assert.deepEqual(moves.split('\n'), [newer.ref, older.ref]);
  });

  test('a waiting and a running deploy are cancelled', async () => {
    const commit = await built();
    const strategy = await person.strategy('halted');
    const hook = await waitingHook(target.repository);
    const running = await person.ask(strategy, commit);
    await hook.begins(1);
    const waiting = await person.ask(strategy, commit);
    assert.equal((await person.cancel(waiting)).state, 'cancelled');
    await person.cancel(running);
    assert.equal((await person.end(running)).state, 'cancelled');
    assert.match(await person.log(running), /cancelled/);
    await hook.remove();
    const branches = await target.repository.git(['for-each-ref', '--format=%(refname:short)', 'refs/heads/halted']);
    assert.equal(branches, '');
    assert.equal((await person.deploy(strategy, commit)).state, 'deployed', 'the branch is free for the next');
  });

  test('one file leads from a build over a person to production, by a suite', async () => {
    const shop = await installation.project('shop');
    const shipping = deploying(shop, target);
    const suite = (name: string, command: string, more = ''): string =>
      `[[suites]]\nname = "${name}"\ncommand = '''${command}'''\n${more}\n`;
    const file = [
      suite('build', 'echo built'),
      suite('unit', 'echo tried', 'needs = ["build"]'),
      suite('package', 'echo packed', 'needs = ["unit"]\napproval = true'),
      suite(
        'ship',
        'echo "$HEADRACE_DEPLOY_STRATEGY $HEADRACE_COMMIT $HEADRACE_DEPLOY_ID"',
        'needs = ["unit"]\nmanual = true\napproval = true',
      ),
      '[[deploy_strategies]]\nname = "production"\nstrategy_type = "suite"\nsuite = "ship"\n',
    ].join('');
    await shop.api().put(shop.path, { config_file: '.headrace.toml' });
    const ref = await shop.repository.commit({ files: { '.headrace.toml': file } });
    /** Approves the newest build of a suite, once it waits for that. */
    const approve = async (name: string): Promise<void> => {
      for (const wait = growingPauses(); ; await wait()) {
        const [commit] = await shop.commits();
        const build = commit && (await shop.builds(commit)).find((one) => one.suite_name === name);
        if (build?.build_state === 'waiting_for_approval')
          return void (await shop.api().post(`${shop.path}/builds/${build.id_str}/approve`));
      }
    };
    const request = await shop.ask('main');
    await approve('package');
    assert.equal((await shop.end(request)).build_state, 'passed');

    const [strategy] = await shop.api().get<Item[]>(`${shop.path}/deploy_strategies`);
    assert.ok(strategy);
    const deploy = await shipping.ask(strategy);
    await approve('ship');
    const done = await shipping.end(deploy);
    assert.equal(done.state, 'deployed', await shipping.log(deploy));
    assert.equal(await shipping.log(deploy), `production ${ref} ${deploy.id_str}\n`);
    const [commit] = await shop.commits();
    const names = (await shop.builds(commit)).map((build) => `${String(build.suite_name)} ${build.build_state}`);
    assert.deepEqual(names.toSorted(), [
      'build passed',
      'build passed',
      'package passed',
      'ship passed',
      'unit passed',
      'unit passed',
    ]);
  });

  test('a runner that is killed in the middle of a push leaves it to the next, in the same record', async () => {
    const commit = await built();
    const hook = await waitingHook(target.repository);
    const deploy = await person.ask(await person.strategy('twice'), commit);
    await hook.begins(1);
    const { deploy_started_at: started } = await person.look(deploy);
    await installation.killRunner();
    await person.untilLogged(deploy, /runner was lost/);
    await hook.begins(2);
    assert.equal((await person.look(deploy)).state, 'deploying');
    await hook.letGo();
    const end = await person.end(deploy);
    await hook.remove();
    assert.deepEqual([end.state, end.deploy_started_at], ['deployed', started], await person.log(deploy));
    assert.equal(await target.repository.sha('twice'), commit.ref);
  });

  test('a server that is killed in the middle of a push finds it again', async () => {
    const commit = await built();
    const hook = await waitingHook(target.repository);
    const deploy = await person.ask(await person.strategy('once'), commit);
    await hook.begins(1);
    await installation.killServer();
    await hook.letGo();
    await installation.startServer();
    const end = await person.end(deploy);
    assert.deepEqual([end.state, await hook.count()], ['deployed', 1], await person.log(deploy));
    await hook.remove();
    assert.equal(await target.repository.sha('once'), commit.ref);
  });
});
