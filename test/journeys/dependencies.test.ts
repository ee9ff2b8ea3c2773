import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { onOneDatabase } from '../support/databases.ts';
import { startInstallation, type Installation, type Item, type Project } from '../support/installation.ts';
import { archiveOf, dependenciesOf, greeter, kinds } from '../support/software.ts';

/** Software from its source archive into suites, with the real server, runner and sandbox. */
onOneDatabase((database) => {
  let installation: Installation;
  let project: Project;
  let dependencies: ReturnType<typeof dependenciesOf>;
  before(async () => {
    installation = await startInstallation(database);
    project = await installation.project();
    dependencies = dependenciesOf(() => installation.api());
  });

  /** Builds the newest commit with one suite, and answers its build and what it said. */
  const buildOf = async (suite: string, message: string) => {
    await project.repository.commit({ message });
    await project.build('main');
    const [commit] = await project.commits();
    const build = (await project.builds(commit)).find(({ suite_id_str }) => suite_id_str === suite);
    return { build, log: await project.log(build) };
  };

  test('software of every kind of archive is compiled by its own command and used by a suite', async (t) => {
    const suite = await project.suite(t, 'greets', kinds.map((kind) => `/opt/${kind}/bin/greet ${kind}`).join(' && '));
    for (const kind of kinds) {
      const prefix = `/opt/${kind}`;
      const command = `echo "making $(basename "$PWD")" && make install PREFIX=${prefix}`;
      const sources = Object.fromEntries(Object.entries(greeter).map(([name, text]) => [`greet-1.0/${name}`, text]));
      const fields = { name: kind, command, prefix, source: 'greet-1.0' };
      const dependency = await dependencies.compile(fields, await archiveOf(sources, kind));
      const log = await dependencies.log(dependency);
      assert.equal(dependency.marketplace_state, 'compiled', log);
      assert.match(log, /^Unpacking the archive \(.*making greet-1\.0\n.*Compiled\.\n$/s);
      await project.attach(suite, dependency);
    }
    const { build, log } = await buildOf(suite, 'Greet');
    assert.equal(log, kinds.map((kind) => `hello, ${kind}\n`).join(''));
    assert.equal(build?.build_state, 'passed');
  });

  const script = (text: string): string => `#!/bin/sh\n${text}\n`;
  const installed = (prefix = '/srv/dependency') => `mkdir -p ${prefix}/bin && cp -r * ${prefix}/bin`;

  test('programs, libraries and headers are found, and nothing can be changed', async (t) => {
    const command = 'make install PREFIX=/srv/greet';
    const greet = await dependencies.compile(
      { name: 'greet', command, prefix: '/srv/greet' },
      await archiveOf(greeter),
    );
    assert.equal(greet.marketplace_state, 'compiled', await dependencies.log(greet));
    const source = `printf '#include <greet.h>\\nint main(void) { greet("linker"); return 0; }\\n' > x.c`;
    const suite = await project.suite(
      t,
      'finds',
      `greet && ${source} && cc -o x x.c -lgreet && ./x && echo "\${PATH%%:*}" && ! touch /srv/greet/x 2>/dev/null`,
    );
    await project.attach(suite, greet);
    const { build, log } = await buildOf(suite, 'Find');
    assert.equal(log, 'hello, world\nhello, linker\n/srv/greet/bin\n');
    assert.equal(build?.build_state, 'passed');

    // What is compiled against it finds it likewise; nothing of it ends up in the new result.
    const fields = {
      name: 'polite',
      command: 'cc -o polite x.c -lgreet && mkdir /srv/polite/bin && cp polite /srv/polite/bin',
    };
    const polite = await dependencies.compile(
      { ...fields, prefix: '/srv/polite', 'related_dependencies[]': greet.id_str },
      await archiveOf({ 'x.c': '#include <greet.h>\nint main(void) { greet("Sir"); return 0; }\n' }),
    );
    assert.equal(polite.marketplace_state, 'compiled', await dependencies.log(polite));
    const other = await project.suite(t, 'polite', 'polite && ls /srv/polite');
    await project.attach(other, polite);
    assert.equal((await buildOf(other, 'Be polite')).log, 'hello, Sir\nbin\n');
  });

  test('several at one prefix are laid over each other in the order they were attached', async (t) => {
    const suite = await project.suite(t, 'layered', 'one; two; both');
    for (const name of ['one', 'two']) {
      const sources = { [name]: script(`echo ${name}`), both: script(`echo both of ${name}`) };
      const dependency = await dependencies.compile(
        { name: `layer ${name}`, command: installed() },
        await archiveOf(sources),
      );
      assert.equal(dependency.marketplace_state, 'compiled', await dependencies.log(dependency));
      await project.attach(suite, dependency);
    }
    assert.equal((await buildOf(suite, 'Lay over')).log, 'one\ntwo\nboth of two\n');
  });

  test('a dependency that is compiled against another at the same prefix sees it there, and adds only new files', async (t) => {
    const base = await dependencies.compile(
      { name: 'base', command: installed() },
      await archiveOf({ base: script('echo base') }),
    );
    const command = `base && ${installed()} && rm /srv/dependency/bin/base`;
    const over = await dependencies.compile(
      { name: 'over', command, 'related_dependencies[]': base.id_str },
      await archiveOf({ over: script('echo over') }),
    );
    assert.equal(over.marketplace_state, 'compiled', await dependencies.log(over));
    assert.match(await dependencies.log(over), /^base$/m);
    const suite = await project.suite(t, 'over', 'base && over && ls /srv/dependency/bin');
    await project.attach(suite, over);
    assert.equal((await buildOf(suite, 'Stand over')).log, 'base\nover\nbase\nover\n');
  });

  test('daemons are launched in order, reached on loopback, and gone afterwards', async (t) => {
    const serving = `perl -MIO::Socket::INET -e '
      my $server = IO::Socket::INET->new(LocalAddr => "127.0.0.1:7070", Listen => 5, ReuseAddr => 1) or die "$@";
      exit if fork; close STDOUT; close STDERR;
      while (my $client = $server->accept) { print $client "it is up, said $ARGV[0]\\n"; close $client }' "$1"`;
    const daemon = await dependencies.compile(
      { name: 'daemon', command: installed(), launch_command: 'echo launching; serve "$WHO"' },
      await archiveOf({ serve: script(serving) }),
    );
    const ask = 'exec 3<>/dev/tcp/127.0.0.1/7070; cat <&3';
    const second = await dependencies.compile(
      { name: 'second', command: installed('/opt/second'), prefix: '/opt/second', launch_command: `bash -c '${ask}'` },
      await archiveOf({ nothing: '' }),
    );
    const suite = await project.suite(t, 'served', `bash -c '${ask}'`);
    await project.variable(suite, 'WHO', 'the suite');
    for (const one of [daemon, second]) await project.attach(suite, one);
    const said = 'it is up, said [masked]\n';
    assert.equal((await buildOf(suite, 'Serve')).log, `launching\n${said}${said}`);
    // Where the first is gone, the second finds the port closed.
    await installation.api().delete(`/projects/${project.id_str}/suites/${suite}/dependencies/${daemon.id_str}`);
    const { build, log } = await buildOf(suite, 'Serve no more');
    assert.deepEqual(
      [build?.build_state, build?.failure_reason, build?.exit_status],
      ['errored', 'launch_failed', null],
    );
    assert.match(log, /refused[^]*The launch command of the dependency second failed with exit status 1\.\n$/);
  });

  test('another account’s software stays what it was when it was attached, until somebody moves on [promise: dependency-pins]', async (t) => {
    const mallory = await installation.person('mallory@example.org');
    const theirs = dependenciesOf(mallory);
    const base = await theirs.compile(
      { name: 'base', command: installed('/opt/base'), prefix: '/opt/base' },
      await archiveOf({ base: script('echo good base') }),
    );
    const tool = await theirs.compile(
      {
        name: 'tool',
        command: installed('/opt/tool'),
        prefix: '/opt/tool',
        launch_command: 'echo good launch',
        'related_dependencies[]': base.id_str,
      },
      await archiveOf({ tool: script('echo good tool') }),
    );
    assert.equal(tool.marketplace_state, 'compiled', await theirs.log(tool));
    await mallory().post(`/dependencies/${tool.id_str}/share`);
    const suite = await project.suite(t, 'trusting', 'tool && base');
    await project.variable(suite, 'SECRET', 'what is nobody else’s business');
    await project.attach(suite, tool);
    const good = 'good launch\ngood tool\ngood base\n';
    assert.equal((await buildOf(suite, 'Trust')).log, good);

    const elsewhere = { command: installed('/opt/else'), prefix: '/opt/else' };
    await theirs.change(base, elsewhere);
    await theirs.upload(base, await archiveOf({ base: script('echo evil base') }));
    await theirs.end(base);
    await theirs.change(tool, { ...elsewhere, launch_command: 'echo "evil launch, $(printf %s "$SECRET" | wc -c)"' });
    await theirs.upload(tool, await archiveOf({ tool: script('echo evil tool') }));
    assert.equal((await theirs.end(tool)).marketplace_state, 'shared', await theirs.log(tool));
    assert.equal((await buildOf(suite, 'Trust still')).log, good);

    const attached = `/projects/${project.id_str}/suites/${suite}/dependencies`;
    const [listed] = await installation.api().get<Item[]>(attached);
    assert.equal(listed?.update_available, true);
    await installation.api().post(`${attached}/${tool.id_str}/update`);
    assert.equal((await buildOf(suite, 'Move on')).log, 'evil launch, 32\nevil tool\nevil base\n');
  });

  test('a compile that fails says why, and the last result goes on', async (t) => {
    const dependency = await dependencies.compile(
      { name: 'fickle', command: installed() },
      await archiveOf({ version: script('echo 1') }),
    );
    const suite = await project.suite(t, 'versioned', 'version');
    await project.attach(suite, dependency);
    const failures: [Record<string, string>, RegExp][] = [
      [{ command: 'echo trying; exit 7 # /srv/dependency' }, /trying\n\nThe command failed with exit status 7\.\n$/],
      [{ command: `(exit 6)\n${installed()}` }, /The command failed with exit status 6\.\n$/],
      [{ command: 'true /srv/dependency' }, /The command succeeded but left nothing under \/srv\/dependency\.\n$/],
      [{ command: installed(), source: 'missing' }, /The archive has no directory missing\.\n/],
    ];
    const next = await archiveOf({ version: script('echo 2') });
    for (const [fields, why] of failures) {
      await dependencies.change(dependency, { source: '', ...fields });
      await dependencies.upload(dependency, next);
      assert.equal((await dependencies.end(dependency)).marketplace_state, 'compile_failed');
      assert.match(await dependencies.log(dependency), why);
    }
    await dependencies.upload(dependency, Buffer.from('BZh91AY&SY and nothing more'));
    assert.equal((await dependencies.end(dependency)).marketplace_state, 'compile_failed');
    assert.match(await dependencies.log(dependency), /The archive is refused: /);
    assert.equal((await buildOf(suite, 'Use the old')).log, '1\n');
    await dependencies.change(dependency, { source: '', command: installed() });
    await dependencies.upload(dependency, next);
    assert.equal((await dependencies.end(dependency)).marketplace_state, 'compiled');
    assert.equal((await buildOf(suite, 'Use the new')).log, '2\n');
  });

  test('a compile whose runner is killed goes on with the next one', async () => {
    const command = `if [ -e /srv/dependency ]; then echo begun; sleep "$(cat seconds)"; fi; ${installed()}`;
    const dependency = await dependencies.describe({ name: 'tough', command });
    await dependencies.upload(dependency, await archiveOf({ seconds: '6' }));
    await dependencies.untilLogged(dependency, /begun/);
    await installation.killRunner();
    assert.equal((await dependencies.end(dependency)).marketplace_state, 'compiled');
    assert.match(
      await dependencies.log(dependency),
      /begun\nThe runner was lost\..*\nUnpacking[^]*begun\n\nCompiled\.\n$/,
    );
  });
});
