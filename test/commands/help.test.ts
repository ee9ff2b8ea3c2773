import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { catalog } from '../../src/commands/catalog.ts';
import { parse } from '../../src/commands/command.ts';
import { commandHelp, overview } from '../../src/commands/help.ts';
import { run } from '../../src/lib/processes.ts';
import { Developer } from '../support/developer.ts';

describe('help', () => {
  test('fits a screen, and names every command', () => {
    const text = overview(catalog);
    for (const line of text.split('\n')) assert.ok(line.length <= 80, line);
    assert.ok(text.split('\n').length <= 25, text);
    for (const { words } of catalog) assert.match(text, new RegExp(`^ {2}${words}\\b`, 'm'));
  });

  test('of a command fits a screen, and its examples can be typed', () => {
    for (const command of catalog) {
      const text = commandHelp(command);
      assert.ok(text.split('\n').length <= 32, text);
      for (const line of text.split('\n')) assert.ok(line.length <= 100, line);
      assert.ok(command.examples.length > 0, command.words);
      for (const [line] of command.examples) {
        const [, ...typed] = line
          .replace(/^source <\((.*)\)$/, '$1')
          .replace(/ [<>] .*/, '')
          .split(' ');
        parse(command, typed.slice(command.words.split(' ').length));
      }
    }
  });
});

describe('completion', () => {
  test('is read by bash, and completes commands, flags and words', async () => {
    const developer = new Developer({});
    const { out, status } = await developer.run(['completion', 'bash']);
    assert.equal(status, 0);
    const complete = async (...words: string[]): Promise<string[]> => {
      const script = `${out}\nCOMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _headrace; printf '%s\\n' "\${COMPREPLY[@]}"`;
      const { stdout, stderr, status: ended } = await run('bash', ['-c', script, 'bash', 'headrace', ...words]);
      assert.equal(ended, 0, stderr.toString());
      return stdout.toString().trim().split('\n');
    };
    assert.deepEqual(await complete('lo'), ['login', 'logout', 'logs']);
    assert.deepEqual(await complete('run', '--s'), ['--suite']);
    assert.deepEqual(await complete('rerun', 'x', '--f'), ['--failed', '--follow']);
    for (const waiting of ['run', 'rerun', 'deploy', 'watch', 'logs', 'dependency'])
      assert.deepEqual(await complete(waiting, 'x', '--w'), ['--wait'], waiting);
    assert.deepEqual(await complete('dependency', 'u'), ['upload']);
    assert.deepEqual(await complete('completion', 'f'), ['fish']);
  });

  test('knows zsh and fish, and says so of others', async () => {
    const developer = new Developer({});
    for (const shell of ['zsh', 'fish']) {
      const { out, status } = await developer.run(['completion', shell]);
      assert.equal(status, 0);
      for (const { words } of catalog) assert.ok(out.includes(words.split(' ')[0] ?? ''), words);
    }
    const { status, err } = await developer.run(['completion', 'csh']);
    assert.deepEqual([status, err], [2, 'headrace: There are completions for bash, zsh, fish.\n']);
  });
});
