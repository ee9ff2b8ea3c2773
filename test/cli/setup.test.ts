import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { text } from 'node:stream/consumers';
import { run } from '../../src/lib/processes.ts';
import { folderFor } from '../support/folders.ts';

const root = join(import.meta.dirname, '../..');
const helpText = readFileSync(join(root, 'scripts/help.txt'), 'utf8');

/** As a person's shell has it, and not the npm that runs the tests. */
const environment = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !/^(npm_|HEADRACE|NODE_)/.test(name)),
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

test('an installation waits for somebody else who holds the lock of apt, and says so', async (t) => {
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
});
