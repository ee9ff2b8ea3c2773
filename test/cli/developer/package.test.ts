import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { developerProgram } from '../../../src/cli/developer/catalog.ts';
import { leavesOf, commandLine } from '../../../src/cli/developer/program.ts';
import { run } from '../../../src/shared/lib/processes.ts';
import { temporaryFolder } from '../../support/databases.ts';

/** The words of every command, without its arguments. */
const commands = leavesOf(developerProgram()).map((command) => commandLine(command).replace(/ [[A-Z].*/, ''));
const root = join(import.meta.dirname, '../../..');

describe('the command line as a package of its own', () => {
  test('is installed without the server’s packages, and runs', async () => {
    const folder = temporaryFolder();
    const made = await run(join(root, 'scripts/make-cli'), [folder]);
    assert.equal(made.status, 0, made.stderr.toString());
    const file = made.stdout.toString().trim();
    const installed = await run('npm', ['install', '--offline', '--no-audit', '--no-fund', '--prefix', folder, file]);
    assert.equal(installed.status, 0, installed.stderr.toString());
    const place = join(folder, 'node_modules');
    const packages = readdirSync(place).filter((name) => !name.startsWith('.'));
    assert.deepEqual(packages, ['headrace-cli']);
    const licenses = readdirSync(join(place, 'headrace-cli/licenses'));
    for (const name of ['commander', 'smol-toml', 'yaml']) assert.ok(licenses.includes(name), name);
    const sandbox = readdirSync(join(place, 'headrace-cli/src/runner/sandbox'));
    for (const name of ['mount-helper.pl', 'seccomp']) assert.ok(sandbox.includes(name), name);

    const program = join(place, '.bin/headrace');
    const env = { PATH: `${join(process.execPath, '..')}:${process.env.PATH ?? ''}`, HOME: folder };
    const help = await run(program, ['help'], { env });
    assert.deepEqual([help.status, help.stderr.toString()], [0, '']);
    assert.match(help.stdout.toString(), /^usage: headrace COMMAND/);
    for (const words of commands) {
      const { status, stderr } = await run(program, [...words.split(' '), '--nonsense'], { env });
      assert.equal(status, 2);
      assert.match(stderr.toString(), /usage: headrace/);
    }
    const refused = await run(program, ['status'], { env });
    assert.deepEqual(
      [refused.status, refused.stderr.toString()],
      [3, 'headrace: You are not signed in. Run: headrace login URL\n'],
    );
    const page = readFileSync(join(place, 'headrace-cli/headrace.1'), 'utf8');
    for (const words of commands) assert.ok(page.includes(`.B headrace ${words}`), words);
    assert.doesNotMatch(page, /^[.'](?!TH|SH|TP|B |I |RS|RE|br)/m);
  });
});
