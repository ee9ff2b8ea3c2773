import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { developerProgram } from '../../src/cli/developer/catalog.ts';
import { commandLine, leavesOf, type Command } from '../../src/cli/developer/program.ts';
import { operatorProgram } from '../../src/cli/operator/catalog.ts';
import { describeCommands } from '../support/commands.ts';
import { onOneDatabase, placeFor } from '../support/databases.ts';
import { temporaryFolder } from '../support/folders.ts';
import { headrace } from '../support/program.ts';

const wordsOf = (command: Command): string => commandLine(command).replace(/ [[A-Z<].*/, '');
const ofDevelopers = leavesOf(developerProgram());
const ofOperators = leavesOf(operatorProgram({}));

/** Nothing, or JSON and nothing else. */
function read(out: string, isLines = false): unknown[] {
  const texts = isLines ? out.split('\n').filter((line) => line !== '') : out === '' ? [] : [out];
  return texts.map((text): unknown => JSON.parse(text));
}

function assertWords(err: string): void {
  assert.match(err, /\w+ \w+/);
  assert.throws(() => JSON.parse(err) as unknown, 'errors are words');
}

describe('--json', () => {
  test('is an option of every command, and the documentation has its shape', () => {
    for (const [page, commands] of [
      ['command-line.md', ofDevelopers],
      ['administration.md', ofOperators],
    ] as const) {
      const text = readFileSync(join(import.meta.dirname, '../../docs', page), 'utf8');
      const told = Array.from(
        text.matchAll(/^\| `headrace ([a-z -]+) --json` +\| (.+) \|$/gm),
        ([, words = '']) => words,
      );
      assert.deepEqual(told.toSorted(), commands.map(wordsOf).toSorted(), page);
      for (const command of commands)
        assert.ok(
          command.options.some(({ long }) => long === '--json'),
          wordsOf(command),
        );
    }
  });
});

describeCommands('--json of the commands for developers', ['unit'], ({ service, runner, at }) => {
  test('prints JSON alone, and errors in words', async () => {
    const { developer } = at;
    const running = developer.run(['run', 'main', '-f', '--json']);
    await (await runner.take('fetch_commit')).fetched();
    const task = await runner.take('run_suite');
    await task.writeLog('some words\n');
    await task.exit(0);
    const followed = await running;
    assert.equal(followed.status, 0, followed.err);
    const [{ builds = [] } = {}] = read(followed.out) as { builds?: { id_str: string }[] }[];
    const build = builds[0]?.id_str ?? '';
    // With what it is called, and whether it succeeds here.
    const given: Record<string, [args: string[], isDone: boolean]> = {
      login: [[service.address, '--no-browser'], false],
      logout: [[], false],
      whoami: [[], true],
      init: [['--yes'], false],
      projects: [[], true],
      status: [['main'], true],
      builds: [[], true],
      run: [['main'], true],
      watch: [['none'], false],
      logs: [[build, '-f'], true],
      grep: [['words'], true],
      why: [[build], true],
      summary: [[build], true],
      artifacts: [[build], true],
      shell: [[build], false],
      explain: [['main'], true],
      cancel: [['main'], true],
      approve: [[build], false],
      restart: [[build], true],
      rerun: [['none'], false],
      deploy: [['nowhere'], false],
      'dependency upload': [['none', 'none.tar'], false],
      apply: [['-f', 'none.toml'], false],
      check: [['none.toml'], false],
      import: [['none.yml'], false],
      export: [[], true],
      exec: [['none'], false],
      completion: [['bash'], true],
    };
    assert.deepEqual(Object.keys(given).toSorted(), ofDevelopers.map(wordsOf).toSorted(), 'every command is tried');
    for (const [words, [args, isDone]] of Object.entries(given)) {
      const { status, out, err } = await developer.run([...words.split(' '), ...args, '--json']);
      assert.equal(status === 0, isDone, `${words}: ${err}`);
      // `init` tells what it did until then.
      assert.ok(read(out).length === (isDone || words === 'init' ? 1 : 0), `${words}: ${out}`);
      if (!isDone) assertWords(err);
    }
    const [log] = read((await developer.run(['logs', build, '--json'])).out) as { log: string }[];
    assert.equal(log?.log, 'some words\n');
    const conflict = await developer.run(['export', '--format', 'toml', '--json']);
    assert.deepEqual([conflict.status, conflict.out], [2, '']);
  });
});

describe('--json of the commands for operators', () =>
  onOneDatabase((database) => {
    test('prints JSON alone, and errors in words', async () => {
      const { folder, env } = await placeFor(database);
      const data = join(folder, 'data');
      const run = async (words: string, ...args: string[]) => {
        const all = [...words.split(' '), ...args, '--json', '--data-dir', data];
        const { status, stdout, stderr } = await headrace(all, env);
        return { status, out: stdout.toString(), err: stderr.toString() };
      };
      const other = temporaryFolder();
      const done: [words: string, args: string[], isLines?: boolean][] = [
        ['migrate', []],
        ['admin user create', ['ada@example.org']],
        ['admin user reset', ['ada@example.org']],
        ['admin user password-link', ['ada@example.org']],
        ['admin user suspend', ['ada@example.org']],
        ['admin user resume', ['ada@example.org']],
        ['admin user billing', ['ada@example.org', 'ok']],
        ['admin user operator', ['ada@example.org', 'on']],
        ['admin app create', ['--user', 'ada@example.org', '--name', 'Lamp', '--redirect-uri', 'https://a.example/']],
        ['admin app list', []],
        ['admin runner create', ['far']],
        ['admin runner list', []],
        ['admin runner drain', ['far']],
        ['admin runner rotate', ['far']],
        ['admin runner revoke', ['far']],
        ['admin master-key rotate', []],
        ['admin audit', [], true],
        ['backup', [join(other, 'all.backup')]],
        ['blobs copy', [join(data, 'blobs'), join(other, 'blobs')]],
      ];
      for (const [words, args, isLines = false] of done) {
        const { status, out, err } = await run(words, ...args);
        assert.equal(status, 0, `${words}: ${err}`);
        assert.ok(read(out, isLines).length >= 1, `${words}: ${out}`);
      }
      const elsewhere = ['restore', join(other, 'all.backup'), '--json', '--data-dir', join(other, 'data')];
      const restored = await headrace(elsewhere);
      assert.equal(restored.status, 0, restored.stderr.toString());
      const [record] = read(restored.stdout.toString()) as { rows: number; settings: unknown }[];
      assert.ok(record !== undefined && record.rows > 0 && record.settings === null);
      const wrong: [words: string, args: string[]][] = [
        ['admin app delete', ['7']],
        ['restore', [join(other, 'none')]],
        ['serve', ['--port', 'x']],
        ['runner', []],
        ['scale slurm', ['--url', 'x', '--token-file', join(other, 'none')]],
        ['doctor', ['--config', join(other, 'none.toml')]],
      ];
      for (const [words, args] of wrong) {
        const { status, out, err } = await run(words, ...args);
        assert.notEqual(status, 0, words);
        assert.deepEqual(read(out), [], words);
        assertWords(err);
      }
      const tried = [...done, ...wrong].map(([words]) => words);
      assert.deepEqual(tried.toSorted(), ofOperators.map(wordsOf).toSorted(), 'every command is tried');
    });
  }));
