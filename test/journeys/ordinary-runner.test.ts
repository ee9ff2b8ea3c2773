import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { onOneDatabase } from '../support/databases.ts';
import { startInstallation, type Installation, type Project } from '../support/installation.ts';
import { commandsWith } from '../support/process-list.ts';
import { entry, freeIds, ordinaryRunner, type OrdinaryRunner } from '../support/ordinary-runner.ts';

/**
 * A runner that is an ordinary user, with the real server and sandbox. Its builds run under its own user number on the
 * machine, so the permissions of files keep nothing from them: only what their sandboxes show does.
 */
const kinds = { plain: () => 'somebody:1:1', ranged: () => entry(freeIds()) };
const folders = ['outbox', 'kept', 'scratch', 'spool', 'caches', 'state', 'sandboxes'];

onOneDatabase((database) => {
  let installation: Installation;
  let project: Project;
  const runners = new Map<string, OrdinaryRunner>();
  before(async () => {
    installation = await startInstallation(database, { HEADRACE_TAGS: 'root' });
    project = await installation.project();
    const afterwards = database.afterwards.bind(database);
    for (const [tag, subordinate] of Object.entries(kinds)) {
      const runner = await ordinaryRunner(afterwards, tag, installation);
      runners.set(tag, runner);
      runner.start(subordinate());
    }
  });

  for (const tag of Object.keys(kinds))
    test(`a build (${tag}) finds no token, no outbox, no other build and no process of its runner [promise: build-files] [promise: build-processes]`, async (t) => {
      const folder = runners.get(tag)?.folder ?? assert.fail(tag);
      const token = readFileSync(join(folder, 'token'), 'utf8');
      /** In the words of a command that does not contain it itself. */
      const hidden = (text: string): string => `'${text.slice(0, 6)}''${text.slice(6)}'`;
      const planted = `planted-${tag}-71093`;
      const begun = `begun-${tag}-55210`;
      const sleep = `7777.${tag.length}`;
      const other = await project.suite(
        t,
        `other ${tag}`,
        `echo ${begun} | tee work "$HOME/home" /tmp/tmp /dev/shm/shm; sleep ${sleep} || true; cat work`,
        { 'tags[]': tag },
      );
      const where = `/ --exclude-dir=proc --exclude-dir=sys --exclude-dir=usr`;
      const find = (text: string): string => `grep -rlsF ${hidden(text)} ${where}`;
      const looks = [
        'set +e',
        `cat ${join(folder, 'token')}`,
        `ls -a ${folder} ${join(folder, 'remote-runner')} ${folders.map((name) => join(folder, 'remote-runner', name)).join(' ')}`,
        find(token),
        find(planted),
        find(begun),
        "printf 'processes: '; cat /proc/[0-9]*/cmdline | tr '\\0\\n' '  '; echo",
        "cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep -E 'HEADRACE_(SSH|REGISTRY|CONCURRENCY)'",
        `ls -d /proc/[0-9]*/root${folder} /proc/[0-9]*/cwd/remote-runner`,
        'for pid in $(seq 2 40000); do [ "$pid" = $$ ] || kill -9 "$pid"; done 2>/dev/null',
        'echo looked',
      ].join('\n');
      await project.repository.commit({ message: tag });
      const waiting = await project.ask('main');
      await project.untilLogged(other, new RegExp(begun));
      for (const name of folders) {
        mkdirSync(join(folder, 'remote-runner', name), { recursive: true });
        writeFileSync(join(folder, 'remote-runner', name, 'planted'), planted, { mode: 0o644 });
      }
      assert.ok(readdirSync(folder).includes('token'));
      const suite = await project.suite(t, `looking ${tag}`, looks, { 'tags[]': tag, manual: 'true' });
      const form = { commit_ref: 'main', 'suites[]': suite };
      const asked = await installation.api().post(`${project.path}/build_requests`, form);
      const looked = await project.end(asked);
      const [commit] = await project.commits();
      const log = await project.log((await project.builds(commit)).find((build) => build.suite_id_str === suite));
      assert.equal(looked.build_state, 'passed', log);
      assert.match(log, /\nlooked\n$/);
      for (const text of [token, planted, begun, `sleep ${sleep}`, 'bin/headrace', 'remote-runner --', 'HEADRACE_SSH'])
        assert.ok(!log.includes(text), `${text} is found: ${log}`);
      assert.doesNotMatch(log, /^\/.*(?<!No such file or directory)$/m, 'nothing is found');
      const running = commandsWith(`sleep\0${sleep}\0`);
      assert.notDeepEqual(running, [], 'the other build goes on');
      for (const pid of running) process.kill(pid, 'SIGTERM');
      assert.equal((await project.end(waiting)).build_state, 'passed');
    });
});
