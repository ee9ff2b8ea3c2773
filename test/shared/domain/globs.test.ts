import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { compileGlob, globMatcher } from '../../../src/shared/domain/globs.ts';

/** As bytes, which is how expressions and names meet. */
const bytes = (text: string): string => Buffer.from(text).toString('latin1');

/** Whether a glob without `**` matches a path exactly. */
function matches(glob: string, path: string): boolean {
  const names = path.split('/');
  return (compileGlob(glob) ?? []).some(
    (parts) =>
      parts.length === names.length &&
      parts.every((part, at) => new RegExp(`^(?:${bytes(part)})$`, 's').test(bytes(names[at] ?? ''))),
  );
}

describe('a glob', () => {
  const cases: [glob: string, matching: string[], others: string[]][] = [
    ['dist/app.js', ['dist/app.js'], ['dist/appxjs', 'dist', 'app.js', 'dist/app.js/x']],
    ['./dist//app/', ['dist/app'], ['dist', 'app']],
    ['*.log', ['a.log', 'ü b.log', '-.log'], ['.log', 'alog', 'a.log.gz', 'a/b.log']],
    ['a*b*c', ['abc', 'axbyc', 'a*b*c'], ['ab', 'abcd']],
    ['?', ['a', 'ü', '€', '𝄞', '?'], ['', 'ab', '.', 'üü']],
    ['[a-c1].txt', ['a.txt', 'c.txt', '1.txt'], ['d.txt', '-.txt', '.txt']],
    ['[!a-c]x', ['dx', 'üx', '€x'], ['ax', '.x', 'x']],
    ['[]x]', [']', 'x'], ['a', '']],
    ['[é€]', ['é', '€'], ['e', 'è', 'ü']],
    ['{a,b/{c,d},}x', ['ax', 'b/cx', 'b/dx', 'x'], ['cx', 'bx']],
    ['[{,}]', ['{', ',', '}'], ['', 'a']],
    ['.env*', ['.env', '.env.local'], ['env']],
    ['.*', ['.git'], ['git']],
    ['\\*\\{a\\,b', ['*{a,b'], ['xa', 'a']],
    ['a+(b)|^$.c', ['a+(b)|^$.c'], ['aab', 'a']],
    ["it's a 'name'", ["it's a 'name'"], ['its a name']],
  ];
  for (const [glob, matching, others] of cases)
    test(`${glob} matches what it says`, () => {
      assert.deepEqual(
        [...matching, ...others].filter((path) => matches(glob, path)),
        matching,
      );
    });

  test('has any number of directories for **', () => {
    assert.deepEqual(compileGlob('a/**'), [['a', '**', '(?!\\.).*']]);
    assert.deepEqual(compileGlob('**/**/x'), [['**', 'x']]);
  });

  test('stands for files below what it matches', () => {
    const paths = ['a.log', 'dist/a.js', 'dist/b/c.js', 'dist/.x/y.js', '.hidden', 'x/dist/a.js', 'ü/€.log'];
    const chosen = (glob: string): string[] => paths.filter((path) => globMatcher(glob)?.(path));
    assert.deepEqual(chosen('dist'), ['dist/a.js', 'dist/b/c.js']);
    assert.deepEqual(chosen('**/*.js'), ['dist/a.js', 'dist/b/c.js', 'x/dist/a.js']);
    assert.deepEqual(chosen('dist/**/c.js'), ['dist/b/c.js']);
    assert.deepEqual(chosen('{.hidden,?/€.*}'), ['.hidden', 'ü/€.log']);
    assert.deepEqual(chosen('dist/.x'), ['dist/.x/y.js']);
    assert.deepEqual(chosen('dist/a.js/x'), []);
    assert.equal(globMatcher('../x'), undefined);
  });

  test('is refused where it leads out, or means nothing', () => {
    const wrong = [
      '',
      '.',
      '../lib',
      '/',
      '/etc/passwd',
      '..',
      '../x',
      'a/../b',
      'a/{b,..}/c',
      '{/etc,x}',
      '!a',
      'a\nb',
      'a\0b',
    ];
    const unfinished = ['[a', 'a{b', 'a\\', '[z-a]', '[ä-ü]', '[!]'];
    const large = ['x'.repeat(256), '{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}'];
    for (const glob of [...wrong, ...unfinished, ...large]) assert.equal(compileGlob(glob), undefined, glob);
  });
});
