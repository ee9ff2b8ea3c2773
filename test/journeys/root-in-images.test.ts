import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { onOneDatabase, temporaryFolder } from '../support/databases.ts';
import { debianLayers } from '../support/debian-image.ts';
import { Developer } from '../support/developer.ts';
import { startInstallation, type Build, type Installation, type Project } from '../support/installation.ts';
import { entry, freeIds, ordinaryRunner } from '../support/ordinary-runner.ts';
import { imageOfTars, startRegistry, type TestRegistry } from '../support/registry.ts';

/** What people do as root in containers, in a Debian of a real registry, with the real server, runner and sandbox. */
onOneDatabase((database) => {
  const folder = temporaryFolder();
  let registry: TestRegistry;
  let installation: Installation;
  let project: Project;
  before(async () => {
    registry = await startRegistry({ isOpen: true });
    installation = await startInstallation(database, {
      HEADRACE_REGISTRY_ALLOW: '127.0.0.0/8',
      HEADRACE_TAGS: 'root',
    });
    project = await installation.project();
    const layers = await debianLayers(folder);
    for (const [tag, config] of Object.entries({ root: {}, app: { User: 'app' } }))
      await registry.push('debian', tag, imageOfTars(layers, { env: ['COLOUR=green'], config }));
    const afterwards = database.afterwards.bind(database);
    (await ordinaryRunner(afterwards, 'ordinary', installation)).start(entry(freeIds()));
    (await ordinaryRunner(afterwards, 'plain', installation)).start('somebody:1:1');
  });
  after(() => registry?.close());

  const buildsOf = async (message: string): Promise<(suite: string) => Promise<{ build?: Build; log: string }>> => {
    const sha = await project.repository.commit({ message, files: { file: `${message}\n` } });
    await project.build(sha);
    const [commit] = await project.commits();
    const builds = await project.builds(commit);
    return async (suite) => {
      const build = builds.find(({ suite_id_str }) => suite_id_str === suite);
      return { ...(build && { build }), log: await project.log(build) };
    };
  };

  for (const [runner, tag] of Object.entries({ root: 'root', 'an ordinary user': 'ordinary' })) {
    const on = { 'tags[]': tag };
    test(`packages are installed, users are made, and what they own goes on from build to build, where the runner is ${runner}`, async (t) => {
      const image = `${registry.host}/debian:root`;
      const command = [
        'id -u; echo "$HOME $USER $COLOUR"; stat -c %u . ~ file',
        'apt-get -qq update; apt-get -qq install -y greeter >/tmp/said 2>&1 || { cat /tmp/said; exit 9; }',
        'greet; stat -c %U /var/lib/greeter; rm -r /usr/share/perl5 2>/dev/null || :',
        'useradd -m worker; su worker -c "id -un; touch /tmp/of-worker"; stat -c %U /tmp/of-worker /home/worker',
        'ls -l deps/of-worker 2>/dev/null | cut -d" " -f1,3 || :',
        'mkdir -p deps out /data; echo kept >deps/of-worker; chown 1234:1234 deps/of-worker; chmod 0 deps/of-worker',
        'echo artifact >out/closed; chown 33 out/closed out; chmod 0 out/closed; chmod 700 out; echo of data >/data/file',
        'test ! -e stop || exit 5',
      ].join('\n');
      const fields = { image, ...on, 'cache[]': 'deps', 'artifacts[]': 'out/*' };
      const suite = await project.suite(t, 'as root', command, fields);
      const begin = '0\n/home/build root green\n0\n0\n0\ngreetings\ngreeter\nworker\nworker\nworker\n';
      const first = await (await buildsOf('First'))(suite);
      assert.equal(first.build?.build_state, 'passed', first.log);
      assert.ok(first.log.includes(begin), first.log);
      const artifacts = `/projects/${project.id_str}/builds/${first.build?.id_str}/artifacts`;
      const [kept] = await installation.api().get<{ path: string; size: number }[]>(artifacts);
      assert.deepEqual([kept?.path, kept?.size], ['out/closed', 9]);
      const second = await (await buildsOf('Second'))(suite);
      assert.equal(second.build?.build_state, 'passed', second.log);
      assert.ok(second.log.includes(`${begin}---------- 1234\n`), second.log);
    });

    test(`the user of an image runs, a suite may say otherwise, and another suite goes on with the files, where the runner is ${runner}`, async (t) => {
      const image = `${registry.host}/debian:app`;
      const who = 'id -un; id -Gn; stat -c %U . ~ file; cat /srv/of-app 2>&1; ';
      const own = await project.suite(t, 'own', `${who} echo mine >mine; test -w /etc/hosts || echo not root`, {
        image,
        ...on,
      });
      const root = await project.suite(t, 'root', `${who} chown 70 file; su app -c "id -un"`, {
        image,
        root: 'true',
        ...on,
      });
      const debian = `${registry.host}/debian:root`;
      const without = await project.suite(t, 'without', who, { image: debian, root: 'false', ...on });
      const next = await project.suite(t, 'next', 'id -un; cat mine; echo more >>mine; stat -c %U mine file', {
        'needs[]': own,
        files_from_id: own,
        ...on,
      });
      const of = await buildsOf('Who');
      assert.match((await of(own)).log, /\napp\napp team\napp\napp\napp\nof app\nnot root\n/);
      assert.match((await of(root)).log, /\nroot\nroot\nroot\nroot\nroot\nof app\napp\n/);
      assert.match((await of(without)).log, /\nbuild\nbuild\nbuild\nbuild\nbuild\ncat: .*Permission denied\n/);
      assert.match((await of(next)).log, /\nbuild\nmine\nbuild\nbuild\n/);
      // So that both can be deleted.
      const alone = { 'needs[]': '', files_from_id: '' };
      await installation.api().put(`/projects/${project.id_str}/suites/${next}`, alone);
    });

    test(`a shell in a build that failed is who it was, with what it changed and for whom, where the runner is ${runner}`, async (t) => {
      const command =
        'useradd -m worker; echo w >/home/worker/w; chown worker /home/worker/w; chmod 400 /home/worker/w; mkdir /data; echo d >/data/d; exit 5';
      const suite = await project.suite(t, 'to open', command, { image: `${registry.host}/debian:root`, ...on });
      const { build } = await (await buildsOf('Fail'))(suite);
      assert.equal(build?.build_state, 'failed');
      const developer = await Developer.at(installation, installation.admin.email);
      developer.clone(installation.host.url('app.git'));
      const look = 'id -un; stat -c %U /home/worker/w; su worker -c "cat /home/worker/w"; cat /data/d; tty || :';
      const shell = await developer.run(['shell', build?.id_str ?? ''], look);
      assert.equal(shell.out, 'root\nworker\nw\nd\nnot a tty\n', shell.err);
    });
  }

  test('a runner with one user ID says so in the log of a build, and everything there belongs to it', async (t) => {
    const command =
      'id -un; stat -c %U . file /etc/shadow /srv/of-app; chown 70 file || echo no chown; su app -c id || echo no su; echo more >>/etc/shadow && echo mine';
    const plain = { image: `${registry.host}/debian:root`, 'tags[]': 'plain' };
    const suite = await project.suite(t, 'one ID', command, plain);
    const { log } = await (await buildsOf('One'))(suite);
    assert.match(log, /\nThis runner has one user ID for a build in an image: everything there belongs to it, and no/);
    assert.match(log, /\nroot\nroot\nroot\nroot\nroot\nchown: .*\nno chown\n(.*\n)+no su\nmine\n$/);
  });
});
