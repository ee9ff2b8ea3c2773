import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { operatorProgram } from '../../../src/cli/operator/catalog.ts';
import { developerProgram } from '../../../src/cli/developer/catalog.ts';
import { leavesOf, commandLine, type Command } from '../../../src/cli/developer/program.ts';
import { run } from '../../../src/shared/lib/processes.ts';
import { Developer } from '../../support/developer.ts';

/** What a person is shown. */
function helpOf(command: Command): string {
  let text = '';
  command.configureOutput({ writeOut: (piece) => (text += piece), getOutHelpWidth: () => 80 }).outputHelp();
  return text;
}

describe('help', () => {
  test('fits a screen, and names every command', () => {
    const text = helpOf(developerProgram());
    for (const line of text.split('\n')) assert.ok(line.length <= 80, line);
    assert.ok(text.trimEnd().split('\n').length <= 30, text);
    for (const command of leavesOf(developerProgram())) assert.ok(text.includes(`\n  ${commandLine(command)} `), text);
  });

  test('of a command fits a screen, and its examples can be typed', () => {
    for (const command of leavesOf(developerProgram())) {
      const text = helpOf(command);
      assert.ok(text.split('\n').length <= 32, text);
      for (const line of text.split('\n')) assert.ok(line.length <= 100, line);
      assert.ok(command.examples.length > 0, commandLine(command));
      for (const [line] of command.examples) {
        const typed = line
          .replace(/^source <\((.*)\)$/, '$1')
          .replace(/ [<>] .*/, '')
          .slice(`headrace ${commandLine(command).replace(/ [[A-Z].*/, '')}`.length);
        const { operands, unknown } = command.parseOptions(typed.split(' ').filter((word) => word !== ''));
        const least = command.registeredArguments.filter(({ required }) => required).length;
        assert.deepEqual(unknown, [], line);
        assert.ok(operands.length >= least && operands.length <= command.registeredArguments.length, line);
      }
    }
  });
});

describe('help for those who run servers', () => {
  const program = operatorProgram({});

  test('lists every command, and tells what each of its options is for', () => {
    const all = helpOf(program);
    for (const command of leavesOf(program)) {
      assert.ok(all.includes(`\n  ${commandLine(command)} `), commandLine(command));
      const text = helpOf(command);
      assert.match(text, /^[A-Z].*\.\n\nusage: headrace /);
      for (const { long, description } of command.options.filter(({ hidden }) => !hidden))
        assert.ok(text.includes(`  ${long} `) && description !== '', `${commandLine(command)} ${long}`);
    }
  });

  test('is shown for all of them, for a group and for one', async () => {
    const developer = new Developer({});
    for (const [typed, shown] of [
      [['help', 'server'], /\n {2}serve +Run the service\n[^]*\n {2}backup FILE /],
      [['help', 'admin'], /^usage: headrace admin COMMAND\n {2}admin user create EMAIL /],
      [['serve', '--help'], /^Run the service\.\n\nusage: headrace serve [^]*\n {2}--no-runner +do not start a runner/],
    ] as const) {
      const { status, out, err } = await developer.run([...typed]);
      assert.deepEqual([status, err], [0, '']);
      assert.match(out, shown);
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
    assert.deepEqual(await complete('run', '--su'), ['--suite']);
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
      for (const command of developerProgram().commands) assert.ok(out.includes(command.name()), command.name());
    }
    const { status, err } = await developer.run(['completion', 'csh']);
    assert.deepEqual([status, err], [2, 'headrace: There are completions for bash, zsh, fish.\n']);
  });
});
