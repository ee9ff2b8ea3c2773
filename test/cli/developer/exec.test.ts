import assert from 'node:assert/strict';
import {
  chmodSync,
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { before, test, type TestContext } from 'node:test';
import { run } from '../../../src/shared/lib/processes.ts';
import { compiling } from '../../support/compiling.ts';
import { temporaryFolder } from '../../support/databases.ts';
import type { Record_ } from '../../support/client.ts';
import { Developer } from '../../support/developer.ts';
import { imageOf, shellLayer, startRegistry } from '../../support/registry.ts';
import { describeWithRunnerOnOne } from '../../support/runner.ts';
import { archiveOf } from '../../support/software.ts';
import type { User } from '../../support/user.ts';
import { lacks } from '../../support/machine.ts';

const isRoot = process.getuid?.() === 0;
const user = 60_914;
const isolated = { skip: lacks('isolation') };

/** The reference of an image with a shell, at a registry of this machine that is open to everybody. */
async function greetingImage(t: TestContext): Promise<string> {
  const registry = await startRegistry({ isOpen: true });
  t.after(() => registry.close());
  const layer = [{ name: 'tools/greet', content: '#!/bin/sh\necho greetings\n' }];
  const env = ['PATH=/tools:/bin', 'COLOUR=green', 'HEADRACE_SUITE=none'];
  await registry.push('team/app', '1', imageOf([shellLayer(), layer], { env }));
  return `${registry.host}/team/app:1`;
}

describeWithRunnerOnOne('headrace exec', (service, runner) => {
  let alice: User;
  let project: Record_;
  let developer: Developer;
  const cache = () => join(developer.home, '.cache/headrace');
  const left = () => readdirSync(cache()).filter((name) => name.startsWith('exec-'));
  const suite = (name: string, command: string, fields: Record<string, string> = {}) =>
    alice.createSuite(project, { name, command, ...fields });
  const exec = (...args: string[]) => developer.run(['exec', ...args, '--offline']);
  before(async () => {
    alice = await service.user();
    project = await alice.createProject({ name: 'Sluice', repository_url: 'git@example.org:team/sluice.git' });
    developer = await Developer.of(service, alice);
    developer.clone('git@example.org:team/sluice.git');
    writeFileSync(join(developer.folder, '.gitignore'), 'ignored\n');
    writeFileSync(join(developer.folder, 'ignored'), 'also this\n');
    writeFileSync(join(developer.folder, 'source'), 'as it is\n');
  });

  test('runs the suite on the tree as it is, with its software, and leaves the tree alone', isolated, async () => {
    const { dependency, task } = await compiling(alice, runner, {
      name: 'tool',
      prefix: '/srv/tool',
      command: 'make install PREFIX=/srv/tool',
      launch_command: 'tool launched',
    });
    const packed = await archiveOf({ 'bin/tool': '#!/bin/sh\necho "tool $1"\n' }, 'tar.zst');
    const stored = await runner.dispatch.store(
      runner.self,
      task.order.claim,
      (async function* () {
        yield packed;
      })(),
    );
    assert.ok('digest' in stored);
    await task.finish({ kind: 'compiled', digest: stored.digest });
    const unit = await suite(
      'unit',
      'cat source ignored; tool used; echo "$HEADRACE_SUITE $HEADRACE_BRANCH $CI [$TOKEN$REGION]"; echo changed > source; rm ignored; exit 3',
    );
    await alice.post(`/projects/${project.id}/suites/${unit.id}/dependencies`, {
      dependency_id: String(dependency.id),
    });
    await alice.post(`/projects/${project.id}/suites/${unit.id}/environment_variables`, {
      name: 'TOKEN',
      content: 'a-very-secret-token',
    });
    const ofProject = `/projects/${project.id}/environment_variables`;
    await alice.post(ofProject, { name: 'REGION', content: '-north', secret: 'false' });
    await alice.post(ofProject, { name: 'TOKEN', content: 'that-of-the-project', secret: 'false' });
    const ran = await exec('unit');
    assert.equal(ran.out, 'tool launched\nas it is\nalso this\ntool used\nunit main true []\n', ran.err);
    assert.match(ran.err, /^unit failed with exit status 3 in \d+s\n$/);
    assert.equal(ran.status, 1);
    assert.equal(readFileSync(join(developer.folder, 'source'), 'utf8'), 'as it is\n');
    assert.ok(existsSync(join(developer.folder, 'ignored')));
    assert.deepEqual(readdirSync(join(cache(), 'results')), [stored.digest]);
    assert.deepEqual(left(), []);

    const again = await exec('unit', '--with-variables');
    assert.match(again.out, /unit main true \[\[masked\]-north\]\n/, 'the suite’s own wins');
  });

  test('tells the result by its exit status, also of a variant, and says what it does not know', isolated, async () => {
    await suite('passes', 'test "$CC" = clang', { 'matrix[]': 'CC=gcc,clang' });
    const passed = await exec('passes', '--variant', 'CC=clang');
    assert.deepEqual([passed.status, passed.out], [0, '']);
    assert.match(passed.err, /^passes \(CC=clang\) passed in /);
    const first = await exec('passes', '--json');
    assert.equal(first.status, 1);
    assert.deepEqual(JSON.parse(first.out), {
      suite: 'passes',
      variant: 'CC=gcc',
      exit_status: 1,
      reason: null,
      steps: [{ name: 'command', state: 'failed', exit_status: 1 }],
    });
    const unknown = await exec('nothing');
    assert.equal(unknown.status, 2);
    assert.match(unknown.err, /^headrace: Sluice has no suite nothing\. It has: .*passes\n$/);
    assert.match((await exec('passes', '--variant', 'CC=tcc')).err, /no variant CC=tcc\. It has: CC=gcc; CC=clang/);
    const without = await exec('unit', '--variant', 'x=y');
    assert.equal(without.status, 2);
    assert.match(
      without.err,
      /^headrace: unit has no matrix, so there is no variant x=y of it\. Remove --variant\.\n$/,
    );
    if (isRoot) assert.match((await exec('passes', '--write')).err, /root cannot use --write/);
  });

  test('runs the steps of a suite, with what they hand on, and says which one failed', isolated, async () => {
    await suite('stepwise', '', {
      'steps[0][name]': 'hand on',
      'steps[0][command]':
        'echo COLOUR=teal >$HEADRACE_ENV; echo TOKEN=of-the-vault >$HEADRACE_SECRET_ENV; echo made >f',
      'steps[1][name]': 'break',
      'steps[1][command]': 'cat f; echo "$COLOUR $TOKEN"; exit 4',
      'steps[2][name]': 'left out',
      'steps[2][command]': 'echo never',
      'steps[3][name]': 'tidy up',
      'steps[3][command]': 'echo tidy; exit 5',
      'steps[3][when]': 'always',
    });
    const ran = await exec('stepwise');
    assert.equal(ran.out, 'made\nteal [masked]\ntidy\n', ran.err);
    assert.match(ran.err, /^stepwise failed in its step break with exit status 4 in \d+s\n$/);
    assert.equal(ran.status, 1);
    const { out, err } = await exec('stepwise', '--json');
    assert.match(err, /made\n/, 'the log is on standard error');
    assert.deepEqual(JSON.parse(out).steps, [
      { name: 'hand on', state: 'passed', exit_status: 0 },
      { name: 'break', state: 'failed', exit_status: 4 },
      { name: 'left out', state: 'skipped', exit_status: null },
      { name: 'tidy up', state: 'failed', exit_status: 5 },
    ]);
    assert.deepEqual(left(), []);
  });

  test(
    'runs a suite in an image; one that its server names is not fetched from this network [promise: registry-addresses]',
    isolated,
    async (t) => {
      const image = await greetingImage(t);
      await suite('in an image', 'greet; echo "$COLOUR $HEADRACE_SUITE"; cat source; ls /usr', { image });
      const refused = await exec('in an image');
      assert.deepEqual([refused.status, refused.out], [3, '']);
      assert.match(refused.err, /has, or leads to, an address that is not public/);
      const ran = await exec('in an image', '--image', image);
      const [first, ...rest] = ran.out.split('\n');
      assert.match(first ?? ran.err, new RegExp(`^Image ${image} \\(sha256:[0-9a-f]{64}\\)$`));
      assert.deepEqual(rest, ['greetings', 'green in an image', 'as it is', 'ls: /usr: No such file or directory', '']);
      assert.equal(ran.status, 1);
      await suite('with a service', 'echo ran', {
        'services[0][name]': 'web',
        'services[0][image]': image,
        'services[0][command]': 'greet; : >/tmp/greeted; exec sleep 1000',
        'services[0][ready_command]': 'test "$COLOUR" = green -a -e /tmp/greeted',
      });
      const without = await exec('with a service');
      assert.deepEqual([without.status, without.out], [3, '']);
      assert.match(without.err, /an address that is not public, and your environment does not allow it/);
      const asking = (HEADRACE_REGISTRY_ALLOW: string) =>
        developer.run(['exec', 'with a service', '--offline'], '', { HEADRACE_REGISTRY_ALLOW });
      const allowed = await asking('127.0.0.0/8');
      // What a service says comes beside the rest.
      assert.match(allowed.out, /^web: greetings$/m, allowed.err);
      assert.match(allowed.out.replace('web: greetings\n', ''), /\nThe service web is ready\.\nran\n$/);
      assert.equal(allowed.status, 0);
      assert.equal((await asking('127.0.0.1')).status, 2);
      assert.deepEqual(left(), []);
    },
  );

  test('has the services of a suite beside it, and shows what they say, line by line', isolated, async () => {
    const perl = 'exec perl -MIO::Socket::INET -e';
    const [tool] = (await alice.get('/dependencies')).list;
    const served = await suite('served', `${perl} '$s = IO::Socket::INET->new("web:7070") or die; print <$s>'`, {
      'services[0][name]': 'web',
      'services[0][dependency_id]': tool?.id_str ?? '',
      'services[0][command]': `tool "for $WHOM"; printf %070000d 0; echo; ${perl} '$s = IO::Socket::INET->new(LocalAddr => "127.0.0.1:7070", Listen => 5) or die; while ($c = $s->accept) { print $c "hello\n"; close $c }'`,
      'services[0][variables][0][name]': 'WHOM',
      'services[0][variables][0][from]': 'COLOUR',
      'services[0][ready_port]': '7070',
      'services[0][prepare]': 'echo filled in; cat source',
    });
    const variables = `/projects/${project.id}/suites/${served.id}/environment_variables`;
    await alice.post(variables, { name: 'COLOUR', content: 'ultramarine' });
    const ran = await exec('served', '--with-variables');
    assert.equal(ran.status, 0, ran.err);
    const said =
      /^web: tool for \[masked\]\n(web: 0+\n)+web: filled in\nweb: as it is\nThe service web is ready\.\nhello\n$/;
    assert.match(ran.out, said);
    assert.deepEqual(left(), []);
    // Somebody who may see the suite, and not the dependency.
    const bob = await service.user();
    await alice.invite(project, bob);
    const { HEADRACE_TOKEN = '' } = (await Developer.of(service, bob)).env;
    rmSync(join(cache(), 'results'), { recursive: true });
    const other = await developer.run(['exec', 'served', '--offline'], '', { HEADRACE_TOKEN });
    assert.match(other.out, /^web: tool for \n/, other.err);
  });

  test('says in one line what is missing', { skip: lacks('isolation', 'mounts') }, async () => {
    const without = (program: string, ...args: string[]) => {
      const hide = `mount --bind /dev/null "$(command -v ${program})" && exec "$@"`;
      const exec = ['bin/headrace', 'exec', 'passes', '--offline', '--project', 'Sluice', ...args];
      const env = { PATH: process.env.PATH ?? '', ...developer.env };
      return run('unshare', ['--mount', 'sh', '-c', hide, 'sh', ...exec], { env });
    };
    const unisolated = await without('bwrap');
    assert.equal(unisolated.status, 3);
    assert.match(
      unisolated.stderr.toString(),
      /^headrace: Suites cannot be isolated: bwrap not found\. Install with: apt-get install bubblewrap.*\n$/,
    );
    const unfetched = await without('umoci', '--image', 'registry.example/app:1');
    assert.equal(unfetched.status, 3);
    assert.match(
      unfetched.stderr.toString(),
      /This runner cannot use images: umoci not found\. Install with: apt-get install umoci\.\n$/,
    );
    assert.deepEqual(left(), []);
  });

  test('ends with Ctrl-C, and leaves nothing', isolated, async () => {
    await suite('slow', 'echo begun; sleep 4141 & sleep 4142');
    const terminal = developer.sit(['exec', 'slow', '--offline']);
    await terminal.until(/begun/);
    terminal.type('\u0003');
    assert.equal(await terminal.end(), 4);
    assert.match(terminal.text, /slow was cancelled/);
    assert.deepEqual(left(), []);
    const { stdout } = await run('pgrep', ['-f', '^sleep 414[12]$']);
    assert.equal(stdout.toString(), '');
  });

  const program = join(import.meta.dirname, '../../../bin/headrace');
  /** Somebody on this machine who is not root, with a folder to work in. */
  const ordinaryUser = () => {
    const home = temporaryFolder();
    const work = join(home, 'work');
    mkdirSync(work);
    const ca = join(home, 'ca.pem');
    copyFileSync(developer.env.HEADRACE_CA_FILE ?? '', ca);
    for (const path of [home, work, ca]) chownSync(path, user, user);
    chmodSync(home, 0o755);
    const env = { PATH: process.env.PATH ?? '', ...developer.env, HOME: home, XDG_CONFIG_HOME: home };
    const who = ['--reuid', String(user), '--regid', String(user), '--clear-groups', '--'];
    const as = (...command: string[]) =>
      run('setpriv', [...who, ...command], { env: { ...env, HEADRACE_CA_FILE: ca }, cwd: work });
    return { home, work, as };
  };

  test('is for ordinary users too, who can let it write', { skip: lacks('isolation', 'other users') }, async (t) => {
    await suite('writes', 'id -u; cat source; echo written > source; echo new > made');
    const { home, work, as } = ordinaryUser();
    writeFileSync(join(work, 'source'), 'mine\n');
    chownSync(join(work, 'source'), user, user);
    const asUser = async (uid: number, ...args: string[]) => {
      const ran = await as(program, 'exec', 'writes', '--project', 'Sluice', '--offline', ...args);
      const said = ran.stdout.toString().replace(/^Image .*\n/, '');
      const [words = ''] = /^This runner has one user ID .*\n/.exec(said) ?? [];
      assert.equal(words !== '', args.includes('--image'));
      assert.deepEqual([ran.status, said.slice(words.length)], [0, `${uid}\nmine\n`], ran.stderr.toString());
    };
    await asUser(1000);
    await asUser(0, '--image', await greetingImage(t)); // whom the image names, with the one ID of this user
    assert.deepEqual([readFileSync(join(work, 'source'), 'utf8'), readdirSync(work)], ['mine\n', ['source']]);
    await asUser(1000, '--write');
    assert.equal(readFileSync(join(work, 'source'), 'utf8'), 'written\n');
    assert.deepEqual(readdirSync(work).toSorted(), ['made', 'source']);
    assert.deepEqual(readdirSync(join(home, '.cache/headrace')).toSorted(), ['images', 'images.lock']);
  });

  /** A repository with a submodule, one that is not there, and another repository that is none of its. */
  const repository = [
    'git init -q . && mkdir -p inner/lib inner/empty vendor/tool .git/modules',
    'git init -q --separate-git-dir=.git/modules/lib inner/lib',
    'git init -q vendor/tool',
    'commit="git -c user.name=a -c user.email=a@example.org commit -q --allow-empty -m one"',
    '(cd inner/lib && $commit)',
    'for d in lib empty gone; do git update-index --add --cacheinfo 160000,$(git -C inner/lib rev-parse HEAD),inner/$d; done',
    '$commit',
  ].join(' && ');
  const places = '. inner/lib inner/empty inner/gone vendor/tool';
  /** Everything that a suite can do to have git run something outside: change, replace, rename on the way, make anew. */
  const attack = [
    'mkdir -p evil/hooks evil/objects evil/refs; echo ref: refs/heads/x >evil/HEAD',
    String.raw`printf '[core]\n\tfsmonitor = touch ../pwned; touch ../../pwned; touch ../../../pwned\n' >evil/config`,
    `for d in ${places}; do`,
    '  cp evil/config $d/.git/config; cp evil/config $d/.git; mv $d/.git $d/.was; rm -rf $d/.git',
    '  mkdir -p $d/.git; cp -r evil/. $d/.git/; echo "gitdir: /build/evil" >$d/.git',
    'done',
    'for d in inner/lib inner/empty inner/gone inner vendor/tool vendor; do mv $d $d.was && mkdir -p $d && cp -r evil $d/.git; done',
    'cp -r evil evil/.git; echo written >made',
  ].join('\n');

  test(
    'with --write, what git reads stays as it is [promise: exec-git]',
    { skip: lacks('isolation', 'other users') },
    async () => {
      await suite('attacks git', `set +e\nexec 2>/dev/null\n${attack}\nexit 0`);
      const exec = [program, 'exec', 'attacks git', '--project', 'Sluice', '--offline', '--write'];
      const facts =
        'find . -path "*/.git*" -printf "%p %y %m %s %l\n" | sort; find . -path "*/.git*" -type f -exec md5sum {} + | sort';
      for (const [what, prepare] of Object.entries({
        'a repository': repository,
        'a work tree beside one': `git init -q ../one && (cd ../one && ${repository}) && rmdir ../work && git -C ../one worktree add -q ../work && cd ../work && git init -q vendor/tool`,
        'no repository': 'true',
      })) {
        const { home, work, as } = ordinaryUser();
        const made = await as('sh', '-c', prepare);
        assert.equal(made.status, 0, made.stderr.toString());
        const before = (await as('sh', '-c', `cd ..; ${facts}`)).stdout.toString();
        const ran = await as(...exec);
        assert.equal(ran.status, 0, ran.stderr.toString());
        assert.equal(readFileSync(join(work, 'made'), 'utf8'), 'written\n', what);
        // In a directory that the suite itself has made, it may make a repository: that is no place of the developer's.
        const isNew = what === 'no repository' ? /(evil|\.cache|inner|vendor)/ : /(evil|\.cache)\//;
        const paths = (text: string): string[] => text.split('\n').filter((line) => !isNew.test(line));
        assert.deepEqual(paths((await as('sh', '-c', `cd ..; ${facts}`)).stdout.toString()), paths(before), what);
        await as('sh', '-c', `for d in ${what === 'no repository' ? '.' : places}; do (cd $d && git status); done`);
        assert.deepEqual(
          readdirSync(home, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('pwned')),
          [],
          what,
        );
      }
    },
  );
});
