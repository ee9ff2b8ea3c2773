import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { onOneDatabase, temporaryFolder } from '../support/databases.ts';
import { debianLayers } from '../support/debian-image.ts';
import { Developer } from '../support/developer.ts';
import { startInstallation, type Build, type Installation, type Project } from '../support/installation.ts';
import { entry, freeIds, ordinaryRunner } from '../support/ordinary-runner.ts';
import { nodeLayers } from '../support/program-layer.ts';
import { imageOf, imageOfTars, shellLayer, startRegistry, type TestRegistry } from '../support/registry.ts';

/** What people do as root in containers, in a Debian of a real registry, with the real server, runner and sandbox. */
onOneDatabase((database) => {
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
    const layers = await debianLayers(temporaryFolder());
    const env = ['COLOUR=green'];
    for (const [tag, config] of Object.entries({ root: {}, app: { User: 'app' } }))
      await registry.push('debian', tag, imageOfTars(layers, { env, config, packing: 'none' }));
    const tools = [...(await debianLayers(temporaryFolder(), ['python3', 'python3-pip'])), ...(await nodeLayers())];
    const forPip = ['PIP_BREAK_SYSTEM_PACKAGES=1', 'PIP_ROOT_USER_ACTION=ignore'];
    await registry.push('debian', 'tools', imageOfTars(tools, { env: forPip, packing: 'none' }));
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

  /** What Python and Node install: a wheel, and a package that is packed by npm itself. */
  const installable = {
    'wheel/greeting.py': 'def main(): print("from a wheel")\n',
    'wheel/greeting-1.0.dist-info/METADATA': 'Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n',
    'wheel/greeting-1.0.dist-info/WHEEL':
      'Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n',
    'wheel/greeting-1.0.dist-info/entry_points.txt': '[console_scripts]\ngreet-python = greeting:main\n',
    'wheel/greeting-1.0.dist-info/RECORD': '',
    'node/package.json': JSON.stringify({
      name: 'greeting',
      version: '1.0.0',
      bin: { 'greet-node': 'main.js' },
      scripts: { postinstall: 'id -un >/var/tmp/installed-by' },
    }),
    'node/main.js': '#!/usr/bin/env node\nconsole.log("from npm");\n',
  };

  const asRoot = { 'tags[]': 'root' };
  test('pip and npm install for everybody, a daemon drops its rights, and the next suite has every owner', async (t) => {
    const image = `${registry.host}/debian:tools`;
    await project.repository.commit({ message: 'To install', files: installable });
    const command = [
      '(cd wheel; python3 -m zipfile -c ../greeting-1.0-py3-none-any.whl greeting.py greeting-1.0.dist-info)',
      'pip install --quiet --no-index ./greeting-1.0-py3-none-any.whl',
      'npm install --global --offline --no-fund --no-audit --loglevel=error --foreground-scripts $(npm pack --silent ./node)',
      'su app -c "greet-python; greet-node"; cat /var/tmp/installed-by',
      'python3 -m venv --without-pip venv && venv/bin/python -c "import sys; print(sys.prefix)"',
      'start-stop-daemon --start --background --chuid app --make-pidfile --pidfile /run/app.pid --exec /bin/sleep -- 1000',
      // It writes the file before it becomes the other user.
      'until [ "$(cat /proc/$(cat /run/app.pid)/comm)" = sleep ]; do sleep 0.01; done',
      'stat -c %U /proc/$(cat /run/app.pid); start-stop-daemon --stop --user app --pidfile /run/app.pid --retry 5 | grep -c app || :',
      'mkdir -p of/app of/other; touch of/app/file of/other/file of/root; chown -R app:team of/app; chown -R 65534:1234 of/other; chmod 700 of/app',
    ].join('\n');
    const from = await project.suite(t, 'installs', command, { image, ...asRoot });
    const look = 'stat -c "%n %u:%g %a" of/root of/app of/app/file of/other/file';
    const further = { 'needs[]': from, files_from_id: from, ...asRoot };
    const again = await project.suite(t, 'goes on in it', look, { ...further, image });
    const as = await project.suite(t, 'goes on as app', look, { ...further, image: `${registry.host}/debian:app` });
    const of = await buildsOf('Install');
    const first = await of(from);
    assert.equal(first.build?.build_state, 'passed', first.log);
    assert.match(first.log, /\nfrom a wheel\nfrom npm\nroot\n\/build\/venv\napp\n/);
    const seen = (own: string, app: string): string =>
      `of/root ${own} 644\nof/app ${app} 700\nof/app/file ${app} 644\nof/other/file 65534:1234 644\n`;
    assert.match((await of(again)).log, new RegExp(`${seen('0:0', '70:80')}$`));
    assert.match((await of(as)).log, new RegExp(`${seen('70:71', '70:80')}$`));
    for (const id of [again, as])
      await installation.api().put(`/projects/${project.id_str}/suites/${id}`, { 'needs[]': '', files_from_id: '' });
  });

  for (const [runner, tag] of Object.entries({ root: 'root', 'an ordinary user': 'ordinary' })) {
    const on = { 'tags[]': tag };
    test(`packages are installed, users are made, and what they own goes on from build to build, where the runner is ${runner}`, async (t) => {
      const image = `${registry.host}/debian:root`;
      const command = [
        'id -u; echo "$HOME $USER $COLOUR"; stat -c %u . ~ file',
        'apt-get -qq update; apt-get -qq install -y greeter >/tmp/said 2>&1 || { cat /tmp/said; exit 9; }',
        'greet; stat -c %U /var/lib/greeter; rm -r /usr/share/perl5 2>/dev/null || :',
        'useradd -u 1000 thousand; id -un 1000',
        'useradd -m worker; su worker -c "id -un; touch /tmp/of-worker"; stat -c %U /tmp/of-worker /home/worker',
        'ls -l deps/of-worker 2>/dev/null | cut -d" " -f1,3 || :',
        'mkdir -p deps out /data; echo kept >deps/of-worker; chown 1234:1234 deps/of-worker; chmod 0 deps/of-worker',
        'echo artifact >out/closed; chown 33 out/closed out; chmod 0 out/closed; chmod 700 out; echo of data >/data/file',
        'test ! -e stop || exit 5',
      ].join('\n');
      const fields = { image, ...on, 'cache[]': 'deps', 'artifacts[]': 'out/*' };
      const suite = await project.suite(t, 'as root', command, fields);
      const begin = '0\n/home/build root green\n0\n0\n0\ngreetings\ngreeter\nthousand\nworker\nworker\nworker\n';
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

    test(`whoever runs next owns what whoever ran owned, and other users keep theirs, where the runner is ${runner}`, async (t) => {
      const inImage = (tag: string) => ({ image: `${registry.host}/debian:${tag}`, ...on });
      const look = 'stat -c "%n %u:%g %a %h" own app other; cat app; ';
      const give = [
        'echo of root >own; echo of app >app; echo of another >other; chmod 6750 app; chmod 600 other; ln app hard',
        'chown app:app app; chown 1234:1234 other; chmod 6750 app; touch thousand; chown 1000:1000 thousand; mkdir closed ~/of-app; touch closed/file',
        'chown -R app:app closed ~/of-app; chmod 700 closed; touch -d 2001-02-03 closed; ln -s /etc/shadow link; chown -h app link',
      ].join('\n');
      const over = (from: string) => ({ 'needs[]': from, files_from_id: from });
      const first = await project.suite(t, 'gives', give, inImage('root'));
      const asApp = await project.suite(
        t,
        'as app',
        `${look} stat -c "%U %a %y" closed; touch closed/mine ~/of-app/mine; stat -c %U link ~/of-app; chmod 600 app`,
        { ...inImage('app'), ...over(first) },
      );
      const beside =
        'stat -c "%n %u:%g" own app other thousand; echo more >>thousand; cat app other || ls -A closed || echo no';
      const alone = await project.suite(t, 'without an image', beside, { ...on, ...over(first) });
      const again = await project.suite(t, 'as root again', look, { ...inImage('root'), ...over(first) });
      const after = await project.suite(t, 'after app', look, { ...inImage('root'), ...over(asApp) });
      const of = await buildsOf('Owners');
      const logOf = async (suite: string): Promise<string> => {
        const { build, log } = await of(suite);
        assert.equal(build?.build_state, 'passed', log);
        return log;
      };
      assert.ok((await logOf(again)).endsWith('own 0:0 644 1\napp 70:71 6750 2\nother 1234:1234 600 1\nof app\n'));
      const log = await logOf(asApp);
      assert.match(log, /own 70:71 644 1\napp 70:71 6750 1\nother 1234:1234 600 1\nof app\n/);
      assert.match(log, /\napp 700 2001-02-03 .*\napp\napp\n$/);
      assert.match(
        await logOf(alone),
        /own 1000:1000\napp 70:71\nother 1234:1234\nthousand 1000:1000\n(.*Permission denied\n){3}no\n$/,
      );
      assert.ok((await logOf(after)).endsWith('own 0:0 644 1\napp 0:0 600 1\nother 1234:1234 600 1\nof app\n'));
      for (const id of [alone, again, after, asApp])
        await installation.api().put(`/projects/${project.id_str}/suites/${id}`, { 'needs[]': '', files_from_id: '' });
    });

    test(`so it is in an image of BusyBox alone, where the runner is ${runner}`, async (t) => {
      const names = ['su', 'chown', 'tar', 'httpd', 'wget'];
      const applets = names.map((name) => ({ name: `bin/${name}`, type: 'symbolic link', target: 'busybox' }) as const);
      const files = [
        { name: 'etc/passwd', content: 'root:x:0:0:root:/root:/bin/sh\n' },
        { name: 'etc/group', content: 'root:x:0:\n' },
        { name: 'etc/shadow', content: 'root:*::0:::::\n', mode: 0o640 },
      ];
      await registry.push('busybox', '1', imageOf([shellLayer(), [...applets, ...files]], { env: ['PATH=/bin'] }));
      const command = [
        'id -un; echo worker:x:7:7::/srv:/bin/sh >>/etc/passwd; su worker -c "id -un; touch /tmp/mine"; stat -c %U /tmp/mine',
        'mkdir -p package/srv/deep; echo installed >package/srv/deep/file; chown -R worker: package; tar -C package -cf p.tar .',
        'tar -C / -xpf p.tar; stat -c %U /srv/deep/file',
        // As small daemons do it: bound as root, served as somebody else.
        'echo page >/srv/page; httpd -p 127.0.0.1:80 -u worker -h /srv; wget -qO- http://127.0.0.1/page',
        // It may still have a process for the page that was served.
        'for p in /proc/[0-9]*; do [ "$(cat $p/comm 2>/dev/null)" != httpd ] || stat -c %U $p 2>/dev/null || :; done | busybox sort -u',
      ].join('\n');
      const id = await project.suite(t, 'small', command, { image: `${registry.host}/busybox:1`, ...on });
      const { build, log } = await (await buildsOf('Small'))(id);
      assert.equal(build?.build_state, 'passed', log);
      assert.match(log, /\nroot\nworker\nworker\nworker\npage\nworker\n$/);
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
