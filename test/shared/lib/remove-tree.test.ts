import assert from 'node:assert/strict';
import { chmod, chown, lstat, mkdir, mkdtemp, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { run } from '../../../src/shared/lib/processes.ts';
import { removeTree, sweepTree } from '../../../src/shared/lib/remove-tree.ts';
import { lacks } from '../../support/machine.ts';

const ordinaryUser = 60_914;

/** Each makes a tree in the directory `victim` of the working directory. */
const hostile: Record<string, string> = {
  'nested 5,000 deep': `mkdir 'victim'; chdir 'victim'; for (1..5000) { mkdir 'deep' or die $!; chdir 'deep' or die $! }`,
  'with a path of a million characters': `
    my $name = 'n' x 255; mkdir 'victim'; chdir 'victim';
    for (1..4000) { mkdir $name or die $!; chdir $name or die $! }
    open my $f, '>', 'file' or die $!`,
  'of closed directories': `
    mkdir 'victim'; for (qw(a a/b a/b/c d)) { mkdir "victim/$_" or die $! }
    for (qw(a/b/c/x a/b/x a/x d/x)) { open my $f, '>', "victim/$_" or die $!; close $f; chmod 0, "victim/$_" }
    chmod 0, "victim/$_" for qw(a/b/c a/b a d); chmod 0, 'victim'`,
  'of odd names': `
    mkdir 'victim'; chdir 'victim';
    for ("-rf", "--", "new\\nline", "\\xff\\xfe", "a b", "*", "'", '"', '$(id)', "\\x1b[2J", "..x", "q" x 255) {
      mkdir $_ or die "$_: $!"; open my $f, '>', "$_/$_" or die "$_: $!" }`,
  'of 20,000 entries': `mkdir 'victim'; for (1..20000) { open my $f, '>', "victim/$_" or die $! }`,
};

async function folderFor(t: TestContext, owner: number): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'headrace-remove-'));
  await chmod(folder, 0o755);
  await chown(folder, owner, owner);
  t.after(() => run('rm', ['-rf', '--', folder]));
  return folder;
}

async function make(folder: string, script: string, owner: number): Promise<void> {
  const made = await run('perl', ['-e', script], { cwd: folder, uid: owner, gid: owner });
  assert.equal(made.status, 0, made.stderr.toString());
}

for (const [what, script] of Object.entries(hostile)) {
  test(`a tree ${what} is removed`, async (t) => {
    const folder = await folderFor(t, process.getuid?.() ?? 0);
    await make(folder, script, process.getuid?.() ?? 0);
    await removeTree(join(folder, 'victim'));
    assert.deepEqual(await readdir(folder), []);
  });

  const skip = lacks('other users');
  test(`a tree ${what} is removed by an ordinary user`, { skip }, async (t) => {
    const folder = await folderFor(t, ordinaryUser);
    await make(folder, script, ordinaryUser);
    const module = new URL('../../../src/shared/lib/remove-tree.ts', import.meta.url).href;
    const program = `await (await import(${JSON.stringify(module)})).removeTree(${JSON.stringify(join(folder, 'victim'))})`;
    const args = ['--disable-warning=ExperimentalWarning', '--input-type=module', '-e', program];
    const removed = await run(process.execPath, args, { uid: ordinaryUser, gid: ordinaryUser });
    assert.equal(removed.stderr.toString(), '');
    assert.deepEqual(await readdir(folder), []);
  });
}

test('links are removed, and what they lead to stays as it is', async (t) => {
  const folder = await folderFor(t, process.getuid?.() ?? 0);
  await mkdir(join(folder, 'kept'), { mode: 0o700 });
  await writeFile(join(folder, 'kept', 'file'), 'kept', { mode: 0o600 });
  await mkdir(join(folder, 'victim'));
  await symlink('../kept', join(folder, 'victim', 'link'));
  await symlink('kept', join(folder, 'link'));
  await removeTree(join(folder, 'victim'));
  await removeTree(join(folder, 'link'));
  assert.deepEqual(await readdir(folder), ['kept']);
  assert.equal(await readFile(join(folder, 'kept', 'file'), 'utf8'), 'kept');
  assert.equal((await lstat(join(folder, 'kept'))).mode & 0o777, 0o700);
});

test('a missing path is no error', () => removeTree(join(tmpdir(), 'headrace-never-was', 'there')));

test('a failure is reported with its path, and stops nothing else', async () => {
  const said: string[] = [];
  await sweepTree('/proc/self/fd', (message) => said.push(message));
  assert.equal(said.length, 1);
  assert.match(said[0] ?? '', /^cleanup failed, \/proc\/self\/fd .*rm: cannot remove/s);
  await assert.rejects(removeTree('/proc/self/fd'), /rm: cannot remove/);
});
