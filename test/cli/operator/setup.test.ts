import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, readFileSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test, type TestContext } from 'node:test';
import { text } from 'node:stream/consumers';
import { run } from '../../../src/shared/lib/processes.ts';
import { folderFor } from '../../support/folders.ts';
import { lacks } from '../../support/machine.ts';

const root = join(import.meta.dirname, '../../..');
const helpText = readFileSync(join(root, 'scripts/help.txt'), 'utf8');

/** As a person's shell has it, and not the npm that runs the tests. */
const environment = Object.fromEntries(
  // npm looks for the home of a user who has neither HOME nor an account, and does not start.
  Object.entries({ HOME: '/', ...process.env }).filter(([name]) => !/^(npm_|HEADRACE|NODE_)/.test(name)),
);

/** A clone in which nothing was installed yet. */
function freshClone(folder: string): string {
  const clone = join(folder, 'clone');
  for (const part of ['bin', 'scripts', 'package.json', 'package-lock.json']) {
    cpSync(join(root, part), join(clone, part), { recursive: true });
  }
  return clone;
}

/** Runs functions of scripts/setup.sh for a folder. */
const inSetup = (clone: string, functions: string, env: NodeJS.ProcessEnv = environment) =>
  run('sh', ['-euc', `root=$1; . "$root/scripts/setup.sh"; ${functions}`, 'sh', clone], { cwd: clone, env });

describe('help', () => {
  test('installs nothing in a fresh clone', async (t) => {
    const clone = freshClone(folderFor((cleanUp) => t.after(cleanUp)));
    for (const words of [[], ['--help'], ['help'], ['run', '--help'], ['serve', '-h']]) {
      const { stdout, status } = await run(join(clone, 'bin/headrace'), words, { env: environment });
      assert.deepEqual([stdout.toString(), status], [helpText, 0]);
    }
    assert.equal(existsSync(join(clone, 'node_modules')), false);
  });

  test('says the same before and after the packages are there', async () => {
    const { stdout } = await run(join(root, 'bin/headrace'), ['--help'], { env: environment });
    assert.equal(stdout.toString(), helpText);
  });
});

describe('a clone that cannot be made ready', () => {
  test('says that it cannot be written, and makes nothing', { skip: lacks('mounts') }, async (t) => {
    const clone = freshClone(folderFor((cleanUp) => t.after(cleanUp)));
    const bind = `mount --bind "${clone}" "${clone}" && mount -o remount,bind,ro "${clone}" && exec "$@"`;
    for (const command of ['bin/headrace', 'scripts/start', 'scripts/test']) {
      const words = ['--mount', 'sh', '-c', bind, 'sh', join(clone, command), 'serve'];
      const { status, stderr } = await run('unshare', words, { env: environment });
      const said = stderr.toString();
      assert.equal(status, 1, said);
      assert.match(
        said,
        /^headrace has to install its packages, and .* is read-only\.\nStart it once from .*: npm ci\n$/,
      );
    }
    assert.equal(existsSync(join(clone, 'node_modules')), false);
  });

  test('is made ready also where npm cannot keep its downloads', async (t) => {
    const folder = folderFor((cleanUp) => t.after(cleanUp));
    const clone = freshClone(folder);
    writeFileSync(join(folder, 'home'), 'no folder');
    const home = { ...environment, HOME: join(folder, 'home'), npm_config_cache: join(folder, 'home/.npm') };
    const { status, stdout, stderr } = await inSetup(clone, 'with_npm_cache npm config get cache', home);
    assert.equal(status, 0, stderr.toString());
    const used = stdout.toString().trim();
    assert.equal(used.startsWith(folder), false);
    assert.equal(existsSync(used), false, 'it is gone again');
  });

  test('names the programs that are missing, and how they are installed', async (t) => {
    const folder = folderFor((cleanUp) => t.after(cleanUp));
    const clone = freshClone(folder);
    const path = join(folder, 'programs');
    mkdirSync(path);
    const { stdout } = await run('sh', ['-c', 'command -v id']);
    symlinkSync(stdout.toString().trim(), join(path, 'id'));
    const wanted = 'PATH=$2; require_programs git=git no-such-program=its-package';
    const { status, stderr } = await run('sh', [
      '-euc',
      `root=$1; . "$root/scripts/setup.sh"; ${wanted}`,
      'sh',
      clone,
      path,
    ]);
    const expected =
      'headrace needs programs that this machine does not have: git no-such-program\n' +
      "Install them with this system's package manager (on Debian: apt-get install git its-package)\n";
    assert.deepEqual([status, stderr.toString()], [1, expected]);
  });
});

describe('programs that are installed', { skip: lacks('root') }, () => {
  /** A clone on a machine where apt-get is this shell script; `called` is the file of its calls. */
  const withApt = (t: TestContext, script: string) => {
    const folder = folderFor((cleanUp) => t.after(cleanUp));
    const clone = freshClone(folder);
    mkdirSync(join(clone, 'node_modules'));
    const programs = join(folder, 'programs');
    mkdirSync(programs);
    const called = join(folder, 'called');
    const env = { ...environment, PATH: `${programs}:${environment.PATH}`, CALLED: called };
    const text = `#!/bin/sh\necho "$*" >>"$CALLED"\n${script}\n`;
    writeFileSync(join(programs, 'apt-get'), text, { mode: 0o755 });
    return {
      clone,
      calls: () => readFileSync(called, 'utf8').split('\n').length - 1,
      setUp: async (functions: string): Promise<[status: number | null, said: string]> => {
        const { status, stderr } = await inSetup(clone, functions, env);
        return [status, stderr.toString()];
      },
    };
  };
  const old = 'E: Unable to correct problems, you have held broken packages.';

  test('say nothing of old package lists when fresh ones help', async (t) => {
    const fails = `case $* in *update*) exit ;; esac\ngrep -q update "$CALLED" && exit\necho '${old}' >&2; exit 100`;
    const { setUp, calls } = withApt(t, fails);
    assert.deepEqual(await setUp('require_programs no-such-program=sums'), [0, 'headrace: installing sums\n']);
    assert.equal(calls(), 3);
  });

  test('tell every failure when the last attempt fails too', async (t) => {
    const fails = `case $* in\n*update*) echo 'E: one source' ;;\n*) grep -q update "$CALLED" && echo 'E: no space' || echo '${old}' ;;\nesac >&2\nexit 100`;
    const { setUp } = withApt(t, fails);
    const [status, said] = await setUp('require_programs no-such-program=sums');
    const expected = `headrace: installing sums\n${old}\nE: one source\nE: no space\nCould not install them. Try:`;
    assert.deepEqual([status, said.slice(0, expected.length)], [1, expected]);
  });

  test('are not asked for again at each start, if one can do without them', async (t) => {
    const { clone, setUp, calls } = withApt(t, 'case $* in *update*) exit ;; esac\necho E: no network >&2; exit 100');
    const start = async (packages: string): Promise<string> => {
      const [status, said] = await setUp(`wish_programs sums no-such-program=${packages}; echo on >&2`);
      assert.equal(status, 0);
      return said;
    };
    const said =
      'headrace: installing sums (for sums)\nE: no network\nCould not install them; it goes on without sums.\non\n';
    assert.equal(await start('sums'), said);
    const once_ = calls();
    assert.equal(await start('sums'), 'on\n');
    assert.equal(calls(), once_);
    assert.notEqual(await start('others'), 'on\n', 'others were not tried yet');
    utimesSync(join(clone, 'node_modules/.not-installed'), 0, 0);
    assert.equal(await start('sums'), said, 'a day later it tries again');
  });
});

describe('packages that somebody else installed', () => {
  /** A project of two packages from folders beside it, one of them for development. */
  const installed = async (folder: string): Promise<string> => {
    const clone = join(folder, 'clone');
    mkdirSync(join(clone, 'scripts'), { recursive: true });
    cpSync(join(root, 'scripts/setup.sh'), join(clone, 'scripts/setup.sh'));
    for (const name of ['used', 'tool']) {
      mkdirSync(join(clone, name));
      writeFileSync(join(clone, name, 'package.json'), JSON.stringify({ name, version: '1.0.0' }));
    }
    const manifest = { name: 'x', dependencies: { used: 'file:used' }, devDependencies: { tool: 'file:tool' } };
    writeFileSync(join(clone, 'package.json'), JSON.stringify(manifest));
    assert.equal((await run('npm', ['install', '--offline'], { cwd: clone, env: environment })).status, 0);
    return clone;
  };

  test('stay, those for development too', async (t) => {
    const clone = await installed(folderFor((cleanUp) => t.after(cleanUp)));
    const { status, stderr } = await inSetup(clone, 'install_packages runtime');
    assert.deepEqual([status, stderr.toString()], [0, '']);
    assert.equal(existsSync(join(clone, 'node_modules/tool')), true);
  });

  test('are not replaced where they do not fit: the person is told', async (t) => {
    const clone = await installed(folderFor((cleanUp) => t.after(cleanUp)));
    const manifest = { name: 'x', dependencies: { used: '2.0.0' }, devDependencies: { tool: 'file:tool' } };
    writeFileSync(join(clone, 'package.json'), JSON.stringify(manifest));
    const { status, stderr } = await inSetup(clone, 'install_packages runtime');
    assert.equal(status, 1);
    assert.match(stderr.toString(), /did not install them itself\.\nInstall the right ones with: {2}npm ci\n$/);
    assert.equal(existsSync(join(clone, 'node_modules/tool')), true);
  });
});

test(
  'an installation waits for somebody else who holds the lock of apt, and says so',
  { skip: lacks('root') },
  async (t) => {
    const folder = folderFor((cleanUp) => t.after(cleanUp));
    const place = (name: string) => join(folder, name);
    for (const part of ['lists/partial', 'cache/archives/partial']) mkdirSync(place(part), { recursive: true });
    for (const part of ['status', 'sources.list']) writeFileSync(place(part), '');
    const settings = {
      'Dir::State::status': place('status'),
      'Dir::State::lists': place('lists'),
      'Dir::Cache': place('cache'),
      'Dir::Etc::sourcelist': place('sources.list'),
      'Dir::Etc::sourceparts': '-',
    };
    const lines = Object.entries(settings).map(([name, value]) => `${name} "${value}";\n`);
    writeFileSync(place('apt.conf'), lines.join(''));

    // Locks of apt are those of fcntl(2), which Node does not have.
    const lock =
      'use Fcntl; open my $file, ">", shift or die; my $whole = pack "s s l! l! i", F_WRLCK, 0, 0, 0, 0; fcntl $file, F_SETLK, $whole or die $!; print "held\\n"; <STDIN>';
    const holder = spawn('perl', ['-e', `$| = 1; ${lock}`, place('lists/lock')], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    await once(holder.stdout, 'data');

    const env = { ...environment, APT_CONFIG: place('apt.conf') };
    const waiting = spawn('sh', ['-euc', '. "$1/scripts/setup.sh"; apt update -qq', 'sh', root], { env });
    waiting.stderr.once('data', () => holder.stdin.end());
    const said = text(waiting.stderr);
    const [status] = (await once(waiting, 'close')) as [number];
    assert.deepEqual([status, await said], [0, 'headrace: another program is installing packages; waiting for it\n']);
  },
);
