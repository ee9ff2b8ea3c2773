import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test, type TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { zstdCompressSync } from 'node:zlib';
import { randomName } from '../../src/shared/lib/random-name.ts';
import { openLink } from '../../src/runner/link.ts';
import { command } from '../support/command.ts';
import { onOneDatabase } from '../support/databases.ts';
import { createGate } from '../support/gate.ts';
import { growingPauses, longestWait } from '../support/pauses.ts';
import { startInstallation, type Build, type Installation, type Item, type Project } from '../support/installation.ts';
import { startProgram } from '../support/program.ts';
import { tarOf } from '../support/tar.ts';

/** What passed builds leave for the next one, with the real server, runner and sandbox. */
onOneDatabase((database) => {
  let installation: Installation;
  let project: Project;
  before(async () => {
    installation = await startInstallation(database);
    project = await installation.project();
  });

  /** A suite that keeps these paths. */
  const cached = async (t: TestContext, script: string, ...paths: string[]): Promise<string> => {
    const suite = await project.suite(t, `cached ${Math.random()}`, script);
    await project.api().put(`${project.path}/suites/${suite}`, { 'cache[]': paths.join('\n') });
    return suite;
  };
  const newest = async (suite: string, sha: string): Promise<Build | undefined> => {
    const commit = (await project.commits()).find(({ ref }) => ref === sha);
    return commit && (await project.builds(commit)).find(({ suite_id_str }) => suite_id_str === suite);
  };
  /** Builds a new commit of a branch, and answers the suite's build and what it said. */
  const built = async (suite: string, branch = 'main'): Promise<{ build: Build | undefined; log: string }> => {
    const sha = await project.repository.commit({ on: branch });
    await project.build(branch);
    const build = await newest(suite, sha);
    return { build, log: await project.log(build) };
  };
  const caches = async (suite: string): Promise<Item[]> =>
    (await project.api().get<Item[]>(`${project.path}/caches`)).filter(({ suite_id_str }) => suite_id_str === suite);

  test('the next build of the suite finds what a passed one left, in the workspace and at home', async (t) => {
    const counting =
      'mkdir -p deps/a ~/.tool; echo x >>deps/a/n; echo y >>~/.tool/n; wc -l <deps/a/n; wc -l <~/.tool/n';
    const suite = await cached(t, counting, 'deps', '~/.tool');
    const first = await built(suite);
    assert.equal(first.build?.build_state, 'passed', first.log);
    assert.match(first.log, /^There is no cache yet\.\n1\n1\nSaved the cache \(1 KB\)\.\n$/);
    assert.match((await built(suite)).log, /^Restored the cache of main \(1 KB\)\.\n2\n2\nSaved the cache/);
    const [before] = await caches(suite);
    await project.command(suite, 'wc -l <deps/a/n; exit 0');
    assert.match((await built(suite)).log, /^Restored the cache of main \(1 KB\)\.\n2\nThe cache is unchanged\.\n$/);
    const [cache] = await caches(suite);
    assert.equal(cache?.branch, 'main');
    assert.ok(Number(cache?.size) > 100, 'the bytes of the packed files');
    assert.equal(cache?.id_str, before?.id_str);
    // What does not pass leaves everything as it was.
    for (const bad of ['echo z >>deps/a/n; exit 1', 'echo z >>deps/a/n; kill -9 $$']) {
      await project.command(suite, bad);
      const { build, log } = await built(suite);
      assert.equal(build?.build_state, 'failed');
      assert.doesNotMatch(log, /aved/);
    }
    await project.command(suite, 'wc -l <deps/a/n');
    assert.match((await built(suite)).log, /\n2\n/);
    // With other paths it begins anew.
    await project.api().put(`${project.path}/suites/${suite}`, { 'cache[]': 'deps' });
    await project.command(suite, 'ls deps 2>/dev/null || echo none');
    assert.match((await built(suite)).log, /^There is no cache yet\.\nnone\n$/);
  });

  test('a failed build leaves its cache where the suite says so, and a cancelled one never', async (t) => {
    const counting = 'mkdir -p deps; echo x >>deps/n; wc -l <deps/n; exit 3';
    const suite = await cached(t, counting, 'deps');
    const { cache_save } = await project.api().put(`${project.path}/suites/${suite}`, { cache_save: 'always' });
    assert.equal(cache_save, 'always');
    const first = await built(suite);
    assert.equal(first.build?.build_state, 'failed', first.log);
    assert.match(first.log, /^There is no cache yet\.\n1\nSaved the cache \(1 KB\)\.\n$/);
    assert.match((await built(suite)).log, /^Restored the cache of main \(1 KB\)\.\n2\nSaved the cache/);
    await project.command(suite, 'echo x >>deps/n; wc -l <deps/n; sleep 600');
    const sha = await project.repository.commit({ on: 'main' });
    const request = await project.ask('main');
    await project.untilLogged(suite, /\n3\n/);
    await project.cancel(request);
    await project.end(request);
    assert.equal((await newest(suite, sha))?.build_state, 'cancelled');
    await project.command(suite, 'wc -l <deps/n');
    assert.match((await built(suite)).log, /^Restored the cache of main .*\n2\n/);
  });

  test('a branch has a cache of its own, begins with that of the default branch, and never writes that [promise: cache-branches]', async (t) => {
    const suite = await cached(t, 'mkdir -p deps; echo "$HEADRACE_BRANCH" >>deps/who; cat deps/who', 'deps');
    await built(suite);
    await project.repository.branch('evil', 'main');
    assert.match((await built(suite, 'evil')).log, /^Restored the cache of main .*\nmain\nevil\nSaved/);
    assert.match((await built(suite, 'evil')).log, /^Restored the cache of evil .*\nmain\nevil\nevil\nSaved/);
    assert.match((await built(suite)).log, /^Restored the cache of main .*\nmain\nmain\nSaved/);
    assert.deepEqual(new Set((await caches(suite)).map(({ branch }) => branch)), new Set(['evil', 'main']));
    // A branch that ends where the default branch does is not taken for it.
    const tip = await project.repository.sha('main');
    await project.repository.branch('posing', tip);
    await project.build('posing');
    await project.repository.branch('third', tip);
    assert.match((await built(suite, 'third')).log, /^Restored the cache of main .*\nmain\nmain\nthird\nSaved/);
    for (const name of ['evil', 'posing', 'third']) await project.repository.deleteBranch(name);
  });

  test('a fork’s build reads caches and writes none [promise: cache-branches]', async (t) => {
    const suite = await cached(t, 'mkdir -p deps; echo "$HEADRACE_COMMIT" >deps/by; ls deps', 'deps');
    await built(suite);
    const [kept] = await caches(suite);
    const sha = await project.repository.commit({ on: 'proposal' });
    await project.repository.git(['update-ref', 'refs/pull/7/head', sha]);
    await project.repository.deleteBranch('proposal');
    await project.build('refs/pull/7/head');
    const log = await project.log(await newest(suite, sha));
    assert.match(log, /^Restored the cache of main .*\nby\n$/);
    assert.deepEqual(
      (await caches(suite)).map(({ id_str }) => id_str),
      [kept?.id_str],
    );
    await project.command(suite, 'cat deps/by');
    assert.doesNotMatch((await built(suite)).log, new RegExp(sha));
    await project.repository.git(['update-ref', '-d', 'refs/pull/7/head']);
  });

  test('the variants of a matrix have each their own', async (t) => {
    const suite = await cached(t, 'mkdir -p deps; echo "$KIND" >>deps/kind; sort -u deps/kind', 'deps');
    await project.api().put(`${project.path}/suites/${suite}`, { 'matrix[]': 'KIND=one,two' });
    for (const times of [1, 2]) {
      const sha = await project.repository.commit();
      await project.build('main');
      const commit = (await project.commits()).find(({ ref }) => ref === sha);
      const builds = (await project.builds(commit)).filter(({ suite_id_str }) => suite_id_str === suite);
      const logs = await Promise.all(builds.map((build) => project.log(build)));
      for (const kind of ['one', 'two'])
        assert.ok(
          logs.some((log) => new RegExp(`\\.\\n${kind}\\nSaved`).test(log)),
          `${times}: ${logs.join('\n')}`,
        );
    }
    assert.equal((await caches(suite)).length, 2);
  });

  test('of two builds that end at once the last one wins, and none sees the other', async (t) => {
    const gate = createGate();
    const script = `mkdir -p deps; echo "$HEADRACE_COMMIT" >>deps/by; ${gate.command}; cat deps/by`;
    const suite = await cached(t, script, 'deps');
    const shas = [await project.repository.commit(), await project.repository.commit()];
    const requests = await Promise.all(shas.map((sha) => project.ask(sha)));
    await gate.open(2);
    await project.command(suite, 'cat deps/by; echo "$HEADRACE_COMMIT" >>deps/by');
    for (const request of requests) assert.equal((await project.end(request)).build_state, 'passed');
    for (const sha of shas)
      assert.match(await project.log(await newest(suite, sha)), new RegExp(`\\.\\nTerminated\\n${sha}\\nSaved`));
    assert.equal((await caches(suite)).length, 1);
    const { log } = await built(suite);
    const [, found] = /\.\n([0-9a-f]{40})\n/.exec(log) ?? [];
    assert.ok(shas.includes(found ?? ''), log);
  });

  test('what changed since the cache was saved is newer than it, also in the cache of another branch', async (t) => {
    const look =
      'mkdir -p out; [ -e out/f ] && echo "newer: $(find . -name .git -prune -o -path ./out -prune -o -type f -newer out/f -print)."; date +%N >out/f';
    const suite = await cached(t, look, 'out');
    const commit = async (on: string, name: string, content: string): Promise<string> => {
      const sha = await project.repository.commit({ on, files: { [name]: content } });
      await project.build(on);
      return project.log(await newest(suite, sha));
    };
    assert.match(await commit('main', 'one', '1'), /^There is no cache yet/);
    assert.match(await commit('main', 'two', '2'), /\nnewer: \.\/two\.\n/);
    await project.repository.branch('beside', 'main');
    assert.match(await commit('beside', 'one', '3'), /^Restored the cache of main .*\nnewer: \.\/one\.\n/);
    assert.match(await commit('beside', 'one', '3'), /^Restored the cache of beside .*\nnewer: \.\n/);
  });

  test('a deleted cache is not found, also when it is deleted under a build', async (t) => {
    const suite = await cached(t, 'mkdir -p deps; ls deps; echo x >deps/f', 'deps');
    await built(suite);
    const [cache] = await caches(suite);
    await project.api().delete(`${project.path}/caches/${cache?.id_str}`);
    assert.match((await built(suite)).log, /^There is no cache yet\.\nSaved/);
    // It does not end before the cache was deleted.
    const gate = createGate();
    await project.command(suite, `echo begun; ${gate.command}; echo y >deps/g`);
    const sha = await project.repository.commit();
    const request = await project.ask('main');
    await project.untilLogged(suite, /begun/);
    await project.api().delete(`${project.path}/caches`);
    await gate.open();
    assert.equal((await project.end(request)).build_state, 'passed');
    assert.match(
      await project.log(await newest(suite, sha)),
      /\nThe cache is not stored: during the build, its cache was deleted/,
    );
    assert.deepEqual(await caches(suite), []);
    await project.command(suite, 'ls deps 2>/dev/null; true');
    assert.match((await built(suite)).log, /^There is no cache yet\.\n$/);
  });

  test('another runner fetches it from the server', async (t) => {
    const suite = await cached(
      t,
      'mkdir -p deps; echo "$RUNNER_SAYS$HEADRACE_COMMIT" >>deps/by; wc -l <deps/by',
      'deps',
    );
    await built(suite);
    const folder = join(installation.folder, 'elsewhere');
    mkdirSync(folder);
    const made = await command(
      ['admin', 'runner', 'create', 'other', '--data-dir', installation.folder],
      installation.env,
    );
    const { token } = JSON.parse(made.stdout.toString()) as { token: string };
    writeFileSync(join(folder, 'token'), token);
    const server = ['--url', installation.address(), '--token-file', join(folder, 'token')];
    const trust = ['--ca-file', join(installation.folder, 'tls', 'cert.pem')];
    const kills: (() => unknown)[] = [];
    const tagged = ['--tag', 'other', '--data-dir', folder];
    const other = startProgram(
      { afterwards: (kill) => void kills.push(kill) },
      ['runner', ...server, ...trust, ...tagged],
      {
        HEADRACE_SSH_CONFIG: installation.host.sshConfig,
        HEADRACE_BUILD_NETWORK: 'none',
        HEADRACE_CONCURRENCY: '1',
      },
    );
    t.after(async () => {
      for (const kill of kills) await kill();
    });
    await project.api().put(`${project.path}/suites/${suite}`, { 'tags[]': 'other' });
    assert.match((await built(suite)).log, /^Fetching the cache of main .*\nRestored the cache of main .*\n2\nSaved/);
    assert.match((await built(suite)).log, /^Restored the cache of main .*\n3\nSaved/);
    other.process.kill('SIGTERM'); // it would also take work without a tag
    assert.equal(await other.exited, 0, other.said());
    await project.api().put(`${project.path}/suites/${suite}`, { 'tags[]': '' });
    assert.match((await built(suite)).log, /^Fetching the cache of main .*\nRestored the cache of main .*\n4\nSaved/);
  });

  test('a cache that a runner of the account made by hand reaches nothing on the one that uses it [promise: cache-confinement]', async (t) => {
    const target = join(installation.folder, 'runner'); // with what every account has on that machine
    const made = await command(
      ['admin', 'runner', 'create', 'bound', '--account', installation.admin.email, '--data-dir', installation.folder],
      installation.env,
    );
    const { token } = JSON.parse(made.stdout.toString()) as { token: string };
    const ca = readFileSync(join(installation.folder, 'tls', 'cert.pem'), 'utf8');
    const bound = openLink({ url: installation.address(), token, ca, tags: 'bound' });
    t.after(() => bound.close());
    const { signal } = new AbortController();
    const suite = await cached(t, 'true', 'deps', '~/.tool');
    for (const root of ['home', 'workspace']) {
      await project.api().put(`${project.path}/suites/${suite}`, { 'tags[]': 'bound' });
      const sha = await project.repository.commit();
      const request = await project.ask('main');
      // The other runner fetches the commit; only this one has the tag that the build wants.
      for (const wait = growingPauses(); !(await newest(suite, sha)); await wait());
      const { claim, work } = (await bound.next({ claim: randomName() }, signal)) ?? assert.fail();
      assert.ok(work.kind === 'run_suite');
      const tree = zstdCompressSync(tarOf([{ name: root, type: 'symbolic link', target }]));
      const stored = await bound.store(
        claim,
        (async function* pieces() {
          yield tree;
        })(),
        signal,
      );
      assert.ok('digest' in stored);
      const cache = { digest: stored.digest };
      await bound.finish({ claim, outcome: { kind: 'exited', status: 0, cache }, logSize: 0 }, signal);
      assert.equal((await project.end(request)).build_state, 'passed');
      await project.api().put(`${project.path}/suites/${suite}`, { 'tags[]': '' });
      await project.command(suite, 'ls -A . ~; ls ./git ~/git; touch ./bad ~/bad');
      const { log } = await built(suite);
      assert.match(
        log,
        /^Fetching the cache of main .*\nThe build starts without the cache of main .*: it could not be fetched\.\n/,
      );
      assert.doesNotMatch(log, /mirrors|sandboxes|caches/);
      assert.ok(!readdirSync(target).includes('bad'));
      await project.api().delete(`${project.path}/caches`);
    }
  });

  test('a runner that is killed while it saves leaves nothing half, and the cache before stays', async (t) => {
    const suite = await cached(t, 'mkdir -p deps; echo good >deps/f', 'deps');
    await built(suite);
    const [kept] = await caches(suite);
    // So much that packing takes a while, of which the first moment is caught. The next attempt may begin at once.
    const large = 'cat deps/f; head -c 150000000 /dev/urandom >deps/large';
    await project.command(suite, `if [ "$HEADRACE_ATTEMPT" = 1 ]; then ${large}; else ls deps; cat deps/f; fi`);
    await project.repository.commit();
    const request = await project.ask('main');
    const store = join(installation.folder, 'runner', 'caches');
    while (!readdirSync(store).some((name) => name.startsWith('making.'))) await pause(2);
    await installation.killRunner();
    const [now] = await caches(suite);
    assert.deepEqual([now?.id_str, now?.size], [kept?.id_str, kept?.size]);
    await project.end(request);
    const [commit] = await project.commits();
    const builds = (await project.builds(commit)).filter(({ suite_id_str }) => suite_id_str === suite);
    assert.deepEqual(
      builds.map(({ attempt, failure_reason }) => [attempt, failure_reason]),
      [
        [2, ''],
        [1, 'runner_lost'],
      ],
    );
    assert.match(await project.log(builds[0]), /^Restored the cache of main .*\nf\ngood\nThe cache is unchanged/);
    assert.ok(!readdirSync(store).some((name) => name.startsWith('making.')));
  });

  test('goes with the project, from the server and from the runner', async () => {
    const other = await installation.project('gone');
    const form = { name: 'cached', command: 'mkdir deps; echo x >deps/f', 'cache[]': 'deps' };
    await other.api().post(`${other.path}/suites`, form);
    assert.equal((await other.build('main')).build_state, 'passed');
    const store = join(installation.folder, 'runner', 'caches');
    const left = (): string[] => readdirSync(store).filter((name) => name.startsWith(`${other.id_str}-`));
    assert.equal(left().length, 1);
    await other.api().delete(other.path);
    for (const until = Date.now() + longestWait; left().length > 0; await pause(50))
      assert.ok(Date.now() < until, 'the runner keeps what is of no use');
  });
});
