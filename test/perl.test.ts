import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { run } from '../src/shared/lib/processes.ts';

const root = join(import.meta.dirname, '../src');
const helpers = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.pl'));

/**
 * Compiles without running, and takes every warning for an error. Some helpers do without `use warnings` when they run,
 * because loading it takes longer than all their work: here it is always on.
 */
async function complaints(program: string): Promise<string> {
  const { status, stderr } = await run('perl', ['-Mstrict', '-Mwarnings=FATAL,all', '-c'], { input: program });
  return status === 0 && stderr.toString() === '- syntax OK\n' ? '' : `${status}: ${stderr.toString()}`;
}

/** What compiles and is still wrong sooner or later. */
const habits: Record<string, RegExp> = {
  'open with two arguments, where the name can be a command': /\bopen\s*\(?\s*my \$\w+\s*,[^,;]*(?:;|\bor\b)/,
  'code made of text': /\beval\s*(?:["'$(]|qq?\b)/,
  'a command through a shell': /`|\bqx\b|\bsystem\s*[({"$@]|\bexec\s*\(?\s*["'][^;]/,
};

describe('the Perl helpers', () => {
  test('are found', () => assert.ok(helpers.length >= 6, helpers.join(' ')));

  for (const name of helpers) {
    test(`${name} compiles, with strict and without a warning`, async () => {
      const program = readFileSync(join(root, name), 'utf8');
      assert.match(program, /^use strict;$/m);
      assert.equal(await complaints(program), '');
      const code = program.replaceAll(/^\s*#.*$/gm, '');
      for (const [habit, pattern] of Object.entries(habits)) assert.doesNotMatch(code, pattern, habit);
    });
  }

  test('would not pass broken', async () => {
    const broken = {
      'my $count = 1; $cuont++;': /Global symbol "\$cuont"/,
      'sub twice { return 2 * shift': /Missing right curly/,
      'my $a1 = 1; my $a1 = 2;': /masks earlier declaration/,
      'my @list = (1); print "one\n" if $list = 1;': /Global symbol "\$list"/,
    };
    for (const [program, complaint] of Object.entries(broken)) assert.match(await complaints(program), complaint);
    const bad = ['open my $f, $name or die;', 'eval "1 + $x";', 'my $x = `ls`;', 'system "ls $x";', "exec 'ls';"];
    for (const code of bad)
      assert.ok(
        Object.values(habits).some((pattern) => pattern.test(code)),
        code,
      );
  });
});
