import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { before, test, type TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { onOneDatabase } from '../support/databases.ts';
import { startInstallation, type Build, type Installation, type Item, type Project } from '../support/installation.ts';
import { longestWait } from '../support/pauses.ts';

interface File extends Item {
  path: string;
  size: number;
}

/** What real builds leave, in the whole service. */
onOneDatabase((database) => {
  let installation: Installation;
  let project: Project;
  before(async () => {
    installation = await startInstallation(database, { HEADRACE_ARTIFACT_SIZE: '3' });
    project = await installation.project();
  });

  const begin = async (t: TestContext, command: string, globs: string): Promise<[suite: string, request: Item]> => {
    const suite = await project.suite(t, t.name, command);
    await project.api().put(`${project.path}/suites/${suite}`, { 'artifacts[]': globs });
    await project.repository.commit({ message: t.name });
    return [suite, await project.ask('main')];
  };
  const attempts = async (suite: string): Promise<Build[]> => {
    const [commit] = await project.commits();
    const builds = commit ? await project.builds(commit) : [];
    return builds.filter(({ suite_id_str: of }) => of === suite).toReversed();
  };
  const built = async (t: TestContext, command: string, globs: string): Promise<Build> => {
    const [suite, request] = await begin(t, command, globs);
    await project.end(request);
    const [build, ...others] = await attempts(suite);
    assert.deepEqual(others, []);
    return build ?? assert.fail('it was not built');
  };
  const pathOf = ({ id_str: id }: Build): string => `${project.path}/builds/${id}/artifacts`;
  const files = async (build: Build): Promise<Record<string, string>> => {
    const listed = await project.api().get<File[]>(`${pathOf(build)}?limit=100`);
    const texts: Record<string, string> = {};
    for (const { id_str: id, path } of listed) texts[path] = await project.api().text(`${pathOf(build)}/${id}`);
    return texts;
  };
  const countIn = async (build: Build): Promise<number> =>
    (await project.api().bytes(`${pathOf(build)}.zip`)).toString('latin1').split('PK\x01\x02').length - 1;

  test('files are kept whatever the result, and the log says which', async (t) => {
    const build = await built(
      t,
      'mkdir -p dist/sub; echo one > dist/a.txt; echo two > dist/sub/b; ln -s a.txt dist/latest; echo bye; exit 3',
      'dist\ncoverage/**\n*.log',
    );
    assert.deepEqual([build.build_state, build.exit_status], ['failed', 3]);
    assert.deepEqual(await files(build), { 'dist/a.txt': 'one\n', 'dist/sub/b': 'two\n' });
    assert.equal(
      await project.log(build),
      [
        'bye',
        '',
        'Artifacts: 2 files kept, 8 bytes.',
        'Artifacts: no file matches coverage/**',
        'Artifacts: no file matches *.log',
        'Artifacts: skipped dist/latest (a link)',
        '',
      ].join('\n'),
    );
  });

  test('what leads out, is no file or has no end is left out, and the result stays [promise: artifact-files]', async (t) => {
    const command = [
      'mkdir x; cd x',
      'ln -s /etc/passwd passwd; ln -s /dev/zero zero; ln -s /proc/1/environ environ; ln -s / root; ln -s ../.. up',
      `ln -s ${installation.folder}/master.key key; mkfifo pipe`,
      `perl -e 'use Socket; socket(S, PF_UNIX, SOCK_STREAM, 0); bind(S, pack_sockaddr_un("socket")) or die'`,
      'truncate -s 1T sparse; truncate -s 2M half; truncate -s 2M more; echo kept > fine',
      String.raw`touch "$(printf 'no\377text')" "$(printf 'line\nbreak')" '..evil'`,
      // It would go on writing, if it lived. On a busy machine it takes a moment to begin.
      '(while :; do date >> grows; done) & until [ -s grows ]; do sleep 0.01; done',
    ].join('\n');
    const build = await built(t, command, 'x/**\nx/.*\nx/root/etc/hostname\nx/up/etc/passwd');
    assert.equal(build.build_state, 'passed', await project.log(build));
    const kept = await files(build);
    const { 'x/grows': grows = '', 'x/half': half = '', ...others } = kept;
    assert.match(grows, /\d\n$/);
    assert.equal(half.length, 2 * 1024 * 1024);
    assert.deepEqual(others, { 'x/fine': 'kept\n', 'x/..evil': '' });
    const log = await project.log(build);
    for (const [name, why] of Object.entries({
      passwd: 'link',
      pipe: 'not a regular file',
      socket: 'not a regular file',
    }))
      assert.match(log, new RegExp(`skipped x/${name} \\(.*${why}\\)`));
    for (const [name, why] of Object.entries({ sparse: 'too large', more: 'too large', 'line\\?break': 'not text' }))
      assert.match(log, new RegExp(`skipped x/${name} \\(.*${why}`));
    assert.match(log, /no file matches x\/root\/etc\/hostname/);
  });

  test('each attempt has its own', async (t) => {
    const [suite, request] = await begin(t, 'date +%s%N > when', 'when');
    await project.end(request);
    const [first] = await attempts(suite);
    await project.api().post(`${project.path}/builds/${first?.id_str}/restart`);
    let all: Build[] = [];
    while (all.length < 2 || all[1]?.build_state !== 'passed') {
      all = await attempts(suite);
      await pause(50);
    }
    const [one, two] = await Promise.all(all.map(files));
    assert.match(`${one?.when} ${two?.when}`, /^\d+\n \d+\n$/);
    assert.notEqual(one?.when, two?.when);
  });

  const many = 3000;
  const victims = {
    'the server': async () => {
      await installation.killServer();
      await installation.startServer();
    },
    'the runner': () => installation.killRunner(),
  };
  for (const [victim, kill] of Object.entries(victims))
    test(`${victim} is killed while files are sent: all are kept once, and nothing is left over`, async (t) => {
      const command = `perl -e 'mkdir "m"; for (1..${many}) { open F, ">", "m/$_"; print F "$_\\n"; close F }'`;
      const [suite, request] = await begin(t, command, 'm');
      for (let sent = 0; sent === 0; await pause(5)) {
        const [build] = await attempts(suite);
        assert.ok(!build || ['enqueued', 'running'].includes(build.build_state), 'it ended before it could be killed');
        if (build) sent = (await project.api().get<File[]>(pathOf(build))).length;
      }
      await kill();
      assert.equal((await project.end(request)).build_state, 'passed');
      const all = await attempts(suite);
      const states = all.map(({ build_state: state, failure_reason: reason }) => `${state} ${reason}`.trim());
      const counts = await Promise.all(all.map(countIn));
      assert.deepEqual(
        [states, counts],
        victim === 'the server'
          ? [['passed'], [many]]
          : [
              ['errored runner_lost', 'passed'],
              [0, many],
            ],
      );
      const last = all.at(-1);
      assert.equal(
        (await project.log(last)).match(/Artifacts: \d+ files kept/g)?.join(),
        `Artifacts: ${many} files kept`,
      );
      const runs = join(installation.folder, 'runner', 'sandboxes', 'runs');
      // They are removed after the outcome is told, beside the next work.
      const left = (): string[] => {
        try {
          const all = readdirSync(runs, { recursive: true, encoding: 'utf8' });
          return all.filter((name) => /\/m\/\d+$/.test(name));
        } catch {
          return ['a folder that is being removed'];
        }
      };
      for (const deadline = Date.now() + longestWait; left().length > 0; await pause(50))
        assert.ok(Date.now() < deadline, 'the files of the build stay');
    });
});
