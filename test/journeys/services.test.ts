import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { busybox } from '../support/busybox.ts';
import { onOneDatabase } from '../support/databases.ts';
import { Developer } from '../support/developer.ts';
import { startInstallation, type Installation, type Project } from '../support/installation.ts';
import { growingPauses } from '../support/pauses.ts';
import { imageOf, shellLayer, startRegistry, type TestRegistry } from '../support/registry.ts';
import { servedBuilds, type ServedBuilds } from '../support/served-builds.ts';

/** Services beside real builds, from images of a real registry. */
onOneDatabase((database) => {
  let registry: TestRegistry;
  let installation: Installation;
  let project: Project;
  let served: ServedBuilds;
  before(async () => {
    registry = await startRegistry();
    installation = await startInstallation(database, { HEADRACE_REGISTRY_ALLOW: '127.0.0.0/8' });
    project = await installation.project();
    served = servedBuilds(installation, project);
    await installation.api().post('/registries', { host: registry.host, ...registry.user });
    const tools = [
      'httpd',
      'nc',
      'wget',
      'sh',
      'echo',
      'kill',
      'sed',
      'seq',
      'ln',
      'mv',
      'mknod',
      'yes',
      'date',
      'test',
      'grep',
    ];
    const layer = [
      ...tools.map((name) => ({ name: `bin/${name}`, type: 'symbolic link', target: 'busybox' }) as const),
      { name: 'www/', type: 'directory' } as const,
      { name: 'www/index.html', content: 'the page\n' },
      { name: 'bin/serve', content: '#!/bin/sh\necho "serving $COLOUR in $(pwd)"; exec httpd -f -v -p 8080 -h .\n' },
    ];
    const config = { WorkingDir: '/www', Entrypoint: ['/bin/sh', '/bin/serve'], ExposedPorts: { '8080/tcp': {} } };
    await registry.push('team/web', '1', imageOf([shellLayer(), layer], { env: ['COLOUR=blue', 'PATH=/bin'], config }));
  });
  after(() => registry?.close());

  const web = (): string => `${registry.host}/team/web:1`;
  const suite = (...of: Parameters<ServedBuilds['suite']>): Promise<string> => served.suite(...of);
  const built = (...suites: string[]): ReturnType<ServedBuilds['built']> => served.built(...suites);

  test('they are ready before the first step, found by name, and gone afterwards, each with its own log', async (t) => {
    const command = `wget -qO- http://web:8080/; wget -qO- http://other/; cat /etc/hosts; ls /www 2>&1 || true`;
    const id = await suite(t, 'beside', command, [
      { name: 'web', image: web(), 'variables[0][name]': 'COLOUR', 'variables[0][from]': 'SECRET_COLOUR' },
      {
        name: 'other',
        image: web(),
        command: 'mkdir -p made && echo hello >made/index.html\nhttpd -f -p 80 -h made',
        ready_port: '80',
        ready_command: 'wget -qO- http://other/ && test "$(pwd)" = /www',
      },
    ]);
    await project.variable(id, 'SECRET_COLOUR', 'ultramarine');
    const [result] = await built(id);
    assert.equal(result?.build.build_state, 'passed', result?.log);
    assert.match(result?.log ?? '', /The service web is ready\.\n/);
    assert.match(result?.log ?? '', /the page\nhello\n127\.0\.0\.1 localhost build web other\n/);
    // What was said of them before is no part of the first step.
    assert.equal(result?.log.split('\n')[(result.build.steps[0]?.line ?? 0) - 1], 'the page');
    assert.match((await result?.said('web')) ?? '', /^serving \[masked\] in \/www\n/);
    assert.equal(await result?.said('other'), '');
    assert.deepEqual(
      result?.build.services.map(({ name, state }) => [name, state]),
      [
        ['web', 'stopped'],
        ['other', 'stopped'],
      ],
    );
    for (const one of result?.build.services ?? []) {
      const times = [one.started_at, one.ready_at, one.finished_at];
      assert.deepEqual(times, times.filter((time) => time !== null).toSorted());
    }
  });

  test('an image without a shell runs as it is, and needs one only for commands', async (t) => {
    const server = [
      { name: 'srv/', type: 'directory' } as const,
      { name: 'srv/index.html', content: 'from a bare image\n' },
      { name: 'httpd', content: readFileSync(busybox), mode: 0o755 },
    ];
    const config = { WorkingDir: '/srv', Entrypoint: ['/httpd', '-f'], ExposedPorts: { '8080/tcp': {} } };
    await registry.push('team/bare', '1', imageOf([server], { config: { ...config, Cmd: ['-p', '8080'] } }));
    const bare = `${registry.host}/team/bare:1`;
    const plain = await suite(t, 'bare', 'wget -qO- http://web:8080/', [{ name: 'web', image: bare }]);
    const commanded = await suite(t, 'commanded', 'echo ran', [{ name: 'web', image: bare, ready_command: 'true' }]);
    const [ran, refused] = await built(plain, commanded);
    assert.equal(ran?.build.build_state, 'passed', ran?.log);
    assert.match(ran?.log ?? '', /\nfrom a bare image\n/);
    assert.deepEqual(
      [refused?.build.build_state, refused?.build.failure_reason],
      ['errored', 'image_without_shell'],
      refused?.log,
    );
    assert.match(refused?.log ?? '', /\bService web: Image .*bare:1: The image has no \/bin\/sh/);
  });

  test('their times are those of the clock, also after a pull that took long', async (t) => {
    const id = await suite(t, 'slow', 'true', [{ name: 'web', image: web() }]);
    registry.freeze();
    const building = built(id);
    for (const wait = growingPauses(); ; await wait()) {
      const newest = await project.builds((await project.commits())[0]);
      if (newest.some((build) => build.suite_id_str === id && build.build_state === 'running')) break;
    }
    await pause(6000);
    const thawed = Date.now();
    registry.thaw();
    const [result] = await building;
    assert.equal(result?.build.build_state, 'passed', result?.log);
    const times = [result?.build.services[0]?.started_at, result?.build.steps[0]?.started_at];
    // Whole seconds, and counted from when the runner was given the build, which may take a moment to arrive there.
    for (const time of times) assert.ok(Date.parse(time ?? '') > thawed - 5000, `${time} ${thawed}`);
  });

  test('a shell in a failed build has them too, filled by who the build was', async (t) => {
    const prepare = 'id -u | grep -qx 0; echo filled >/tmp/filled; wget -qO- http://web:8080/';
    const id = await suite(t, 'opened', 'wget -qO- http://web:8080/; exit 5', [{ name: 'web', image: web(), prepare }]);
    await installation.api().put(`${project.path}/suites/${id}`, { image: web() });
    const [failed] = await built(id);
    assert.equal(failed?.build.exit_status, 5, failed?.log);
    const developer = await Developer.at(installation, installation.admin.email);
    developer.clone(installation.host.url('app.git'));
    const shell = await developer.run(['shell', failed?.build.id_str ?? ''], 'wget -qO- http://web:8080/; exit 4');
    assert.deepEqual([shell.status, shell.out], [4, 'the page\n'], shell.err);
  });

  test('an image that means harm is a service as every other [promise: service-isolation]', async (t) => {
    const link = (name: string, target: string) => ({ name, type: 'symbolic link', target }) as const;
    const look = [
      'for word in "$@"; do echo "<$word>"; done; pwd; cat /etc/hosts; ls -A /tmp /run /build',
      'grep CapBnd /proc/self/status; ls -d /old /sub/old /sub/new 2>/dev/null; ls /proc | grep -c "^[0-9]"',
      'mount -t tmpfs none /tmp 2>/dev/null && echo mounted; touch /tmp/mine ~/mine; exec httpd -f -p 8080 -h /www',
    ];
    const words = ["it's", '$(echo bad)', '`echo bad`', '; exit 3 #', '-x', '', 'two\nlines'];
    const layers = [
      [...shellLayer(), link('bin/httpd', 'busybox'), link('bin/grep', 'busybox')],
      [
        { name: 'old', content: '' },
        { name: 'sub/old', content: '' },
        { name: 'www/index.html', content: 'harmless\n' },
      ],
      [{ name: '.wh.old' }, { name: 'sub/.wh..wh..opq' }, { name: 'sub/new', content: '' }],
      [
        link('etc/hosts', '/bin/busybox'),
        link('home', '/bin'),
        link('tmp', '/www'),
        link('run', '/'),
        link('build', '/bin'),
      ],
    ];
    const config = {
      WorkingDir: "/bin/../../../a 'b' $(echo bad >/www/bad)",
      Entrypoint: ['/bin/sh', '-c', look.join('\n'), 'name', ...words],
      ExposedPorts: { '8080/tcp': {} },
    };
    await registry.push(
      'team/hostile',
      '1',
      imageOf(layers, { env: ['PATH=/bin', 'IFS=x', 'ENV=/bin/bad', 'HEADRACE_STATUS=0'], config }),
    );
    const id = await suite(t, 'harm', 'wget -qO- http://web:8080/; ls ~ /tmp /build; cat /etc/hosts', [
      { name: 'web', image: `${registry.host}/team/hostile:1` },
    ]);
    const [result] = await built(id);
    const said = (await result?.said('web')) ?? '';
    assert.equal(result?.build.build_state, 'passed', `${result?.log}\n${said}`);
    const hosts = '127.0.0.1 localhost build web\n::1 localhost ip6-localhost ip6-loopback\n';
    const within = `/a 'b' $(echo bad >/www/bad)\n${hosts}/build:\n\n/run:\n\n/tmp:\n`;
    const own = 'CapBnd:\t00000000a00404fb\n/sub/new\n';
    assert.ok(said.startsWith(`${words.map((word) => `<${word}>\n`).join('')}${within}${own}`), said);
    assert.match(said.slice(said.indexOf(own) + own.length), /^[1-6]\n$/);
    assert.match(
      result?.log ?? '',
      new RegExp(`is ready\\.\nharmless\n/build:\n(file.*\n)*\n/home/build:\n\n/tmp:\n${hosts}$`),
    );
  });

  test('one that is not ready, dies, or cannot be had makes an errored build, in words', async (t) => {
    const never = await suite(t, 'never', 'echo ran', [
      { name: 'deaf', image: web(), command: 'seq 60; exec sleep 1000', ready_port: '7', ready_timeout: '10' },
      { name: 'other', image: web(), command: 'exec sleep 1000', ready_port: '8' },
    ]);
    const taken = await suite(t, 'taken', 'echo ran', [
      { name: 'first', image: web() },
      {
        name: 'second',
        image: web(),
        command: 'until wget -qO- http://first:8080/ >/dev/null 2>&1; do sleep 0.1; done; exec httpd -f -p 8080 -h .',
      },
    ]);
    const ends = await suite(t, 'ends', 'echo ran', [{ name: 'short', image: web(), command: 'echo bye; exit 4' }]);
    // It dies when the build says so: before that it is not known how long each of them takes to begin.
    const end = `until perl -MIO::Socket::INET -e 'IO::Socket::INET->new("mortal:9090") or exit 1'; do sleep 0.1; done`;
    const dying = `echo begun; wget -qO- http://mortal:8080/ >&2; ${end}; sleep 100; echo never`;
    const dies = await suite(
      t,
      'dies',
      dying,
      [
        {
          name: 'mortal',
          image: web(),
          command: '(nc -l -p 9090; echo farewell; kill $$) & echo up; exec httpd -f -p 8080 -h .',
        },
      ],
      { 'retry_on[]': '' },
    );
    const gone = await suite(t, 'gone', 'echo ran', [{ name: 'none', image: `${registry.host}/team/none:1` }]);
    const variable = await suite(t, 'variable', 'echo ran', [
      { name: 'web', image: web(), 'variables[0][name]': 'A', 'variables[0][from]': 'NOBODY_HAS' },
    ]);
    // The time that they take is the build's.
    const late = await suite(t, 'late', 'echo ran', [{ name: 'web', image: web(), ready_command: 'false' }], {
      timeout: '1',
    });
    const slow = { name: 'web', image: web(), ready_command: 'sleep 3' };
    // What the build does not obey, its service does: that ends first, and is not why.
    const longer = await suite(t, 'longer', `trap '' TERM; sleep 1000; echo ran`, [slow], { timeout: '6' });
    const probed = await suite(t, 'probed', 'echo ran', [
      { name: 'web', image: web(), command: 'exec sleep 1000', ready_command: 'exit 3', ready_timeout: '1' },
    ]);
    const results = await built(never, taken, ends, dies, gone, variable, late, longer, probed);
    assert.deepEqual(
      results.map(({ build }) => [build.build_state, build.failure_reason]),
      [
        ['errored', 'service_not_ready'],
        ['errored', 'service_not_ready'],
        ['errored', 'service_not_ready'],
        ['errored', 'service_died'],
        ['errored', 'image_not_found'],
        ['errored', 'variable_missing'],
        ['timed_out', 'timed_out'],
        ['timed_out', 'timed_out'],
        ['errored', 'service_not_ready'],
      ],
      results.map(({ log }) => log).join('\n---\n'),
    );
    const logs = results.map(({ log }) => log);
    for (const log of [0, 1, 2, 4, 5, 6, 7, 8].map((at) => logs[at] ?? '')) assert.doesNotMatch(log, /ran/);
    const last = Array.from({ length: 50 }, (_, at) => at + 11).join('\n');
    assert.match(
      logs[0] ?? '',
      new RegExp(
        `The service deaf was not ready within 10 seconds: it does not listen at port 7\\. Its last lines:\\n${last}\\n$`,
      ),
    );
    assert.match(
      logs[1] ?? '',
      /The service second ended with status 1 before it was ready\. .*Address already in use/s,
    );
    assert.match(logs[2] ?? '', /The service short ended with status 4 before it was ready\. Its last lines:\nbye\n/);
    assert.match(
      logs[3] ?? '',
      /begun\n.*The service mortal .* while the build ran\. Its last lines:\nup\nfarewell\n/s,
    );
    assert.match(logs[4] ?? '', /Service none: Image .*team\/none:1: /);
    assert.match(logs[8] ?? '', /web was not ready within 1 seconds: ready_command ended with status 3\. It printed/);
    assert.match(logs[5] ?? '', /The service web takes A from the variable NOBODY_HAS/);
    assert.match(logs[6] ?? '', /\nThe build’s time limit passed before all services were ready\.\n$/);
    const became = results.map(({ build }) =>
      build.services.map(
        ({ name, state, exit_status: status }) => `${name} ${state}${state === 'stopped' ? '' : ` ${status}`}`,
      ),
    );
    assert.deepEqual(became, [
      ['deaf failed null', 'other stopped'],
      ['first stopped', 'second failed 1'],
      ['short failed 4'],
      ['mortal failed 143'],
      ['none stopped'],
      [],
      ['web stopped'],
      ['web stopped'],
      ['web failed null'],
    ]);
  });

  test('a build whose service died runs its last steps, and keeps its artifacts, results and files', async (t) => {
    const end = `until perl -MIO::Socket::INET -e 'IO::Socket::INET->new("mortal:9090") or exit 1'; do sleep 0.1; done`;
    const report = '<testsuite><testcase classname="c" name="n" time="0.1"/></testsuite>';
    const id = await suite(
      t,
      'tidy',
      '',
      [
        { name: 'mortal', image: web(), command: '(nc -l -p 9090; kill $$) & exec httpd -f -p 8080 -h .' },
        { name: 'lasting', image: web(), command: 'exec httpd -f -p 8081 -h .', ready_port: '8081' },
      ],
      {
        'steps[0][name]': 'test',
        'steps[0][command]': `mkdir out; echo kept >out/file; echo '${report}' >out/report.xml; ${end}; trap '' TERM; sleep 1000`,
        'steps[1][name]': 'more',
        'steps[1][command]': 'echo never',
        'steps[2][name]': 'told',
        'steps[2][command]': 'echo it failed',
        'steps[2][when]': 'failed',
        'steps[3][name]': 'tidy',
        'steps[3][command]': 'wget -qO- http://lasting:8081/',
        'steps[3][when]': 'always',
        'artifacts[]': 'out/file',
        'reports[]': 'out/*.xml',
        'retry_on[]': '',
      },
    );
    const [result] = await built(id);
    const { build, log = '' } = result ?? {};
    assert.deepEqual([build?.build_state, build?.failure_reason], ['errored', 'service_died'], log);
    assert.match(log, /\nit failed\nthe page\n(.*\n)*The service mortal .* while the build ran\./);
    assert.doesNotMatch(log, /never/);
    assert.deepEqual(
      build?.steps.map(({ name, state }) => `${name} ${state}`),
      ['test failed', 'more skipped', 'told passed', 'tidy passed'],
    );
    assert.deepEqual(
      build?.services.map(({ name, state }) => `${name} ${state}`),
      ['mortal failed', 'lasting stopped'],
    );
    assert.equal(build?.tests_passed, 1);
    const path = `/projects/${project.id_str}/builds/${build?.id_str}`;
    const artifacts = await installation.api().get<{ path: string }[]>(`${path}/artifacts`);
    assert.deepEqual(
      artifacts.map((one) => one.path),
      ['out/file'],
    );
    const developer = await Developer.at(installation, installation.admin.email);
    developer.clone(installation.host.url('app.git'));
    const shell = await developer.run(['shell', build?.id_str ?? ''], 'cat out/file');
    assert.deepEqual([shell.out, shell.status], ['kept\n', 0], shell.err);
  });

  test('what fills one is run once, and what it holds is kept: for branches by branches alone', async (t) => {
    const fill = `echo filling; test "$(pwd)" = /build; wget -qO- http://web:8080/starts >/dev/null; cat seeds/*; echo x >left-behind`;
    const service = {
      name: 'web',
      image: web(),
      // What the service has in its directory, it shows; a link and a file outside of it do not stay.
      command: `mkdir -p /www/data/deep; cat /proc/sys/kernel/random/uuid >>/www/data/starts; echo lost >/etc/elsewhere
        ln -sf /etc/passwd /www/data/link; trap 'echo closed >>/www/data/starts; exit 0' TERM
        cat /www/data/starts /etc/elsewhere; httpd -f -p 8080 -h /www/data & wait`,
      prepare: fill,
      'prepare_inputs[]': 'seeds/*',
      'data[]': '/www/data',
    };
    const painted = {
      name: 'painted',
      image: web(),
      command: 'echo "painted <$COLOUR>"; exec httpd -f -p 9090 -h .',
      ready_port: '9090',
      'variables[0][name]': 'COLOUR',
      'variables[0][from]': 'SECRET_COLOUR',
    };
    const id = await suite(t, 'filled', 'ls; wget -qO- http://web:8080/starts', [service, painted]);
    await project.variable(id, 'SECRET_COLOUR', 'ultramarine');
    await project.repository.commit({ message: 'Seeds', files: { 'seeds/one': 'one\n', other: 'a\n' } });
    const [first] = await built(id);
    assert.equal(first?.build.build_state, 'passed', first?.log);
    assert.doesNotMatch(first?.log ?? '', /left-behind/, 'what filled it had files of its own');
    assert.match((await first?.said('web')) ?? '', /filling\none\n/);
    const starts = (log = ''): string[] => log.split('\n').filter((line) => /^([0-9a-f-]{36}|closed)$/.test(line));
    const [made, closed, again] = starts(first?.log);
    assert.deepEqual([starts(first?.log).length, closed], [3, 'closed'], first?.log);
    const [second] = await built(id);
    assert.doesNotMatch((await second?.said('web')) ?? '', /filling/);
    assert.deepEqual(starts(second?.log).slice(0, 2), [made, 'closed'], 'it begins with what the first one left');
    assert.notEqual(starts(second?.log)[2], again, 'and with nothing of what others did since');
    await project.repository.commit({ message: 'Other seeds', files: { 'seeds/two': 'two\n' } });
    const [third] = await built(id);
    assert.match((await third?.said('web')) ?? '', /filling\none\ntwo\n/);
    // The builds before had a secret, so a fork begins with none of their data. Its own are nobody's, not even its own.
    const after = await project.repository.git(['rev-parse', 'main']);
    const proposed = async (files: Record<string, string>) => {
      const sha = await project.repository.commit({ on: 'proposed', after, files });
      await project.repository.git(['update-ref', 'refs/pull/7/head', sha]);
      await project.repository.deleteBranch('proposed');
      return served.resultsOf('refs/pull/7/head', sha, [id]);
    };
    const [begun] = await proposed({ other: 'b\n' });
    assert.equal(starts(begun?.log).length, 1, begun?.log);
    assert.match((await begun?.said('web')) ?? '', /filling\none\ntwo\n/);
    assert.equal(await begun?.said('painted'), 'painted <>\n');
    assert.equal(await third?.said('painted'), 'painted <[masked]>\n');
    for (const other of ['c\n', 'd\n']) {
      const [filled] = await proposed({ 'seeds/three': 'three\n', other });
      assert.match((await filled?.said('web')) ?? '', /filling\none\nthree\ntwo\n/);
      assert.equal(starts(filled?.log).length, 1, 'it is not stopped to be kept');
    }
    const failing = await suite(t, 'not filled', 'echo ran', [{ ...service, prepare: 'echo no seeds; exit 3' }]);
    const [failed] = await built(failing);
    assert.equal(failed?.build.failure_reason, 'service_prepare_failed');
    assert.match(
      failed?.log ?? '',
      /The command prepare of the service web failed with status 3\. Its last lines:\n(.*\n)*no seeds\n$/,
    );
  });
});
