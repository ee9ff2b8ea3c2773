/* oxlint-disable no-control-regex -- control characters are what this is about */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from '../../support/properties.ts';
import { writeJson } from '../../../src/cli/client/json.ts';
import { isRemoteOf } from '../../../src/cli/developer/git.ts';
import { clean, fit, LogFilter, width } from '../../../src/cli/developer/text.ts';

const hostile = [
  '\u001b[2J\u001b[H',
  '\u001b]0;title\u0007',
  '\u001b]52;c;cm0gLXJm\u001b\\',
  '\u009b31m',
  '\u001bP$q"p\u001b\\',
  '\u001b[6n',
  '\b\b\b',
  '\u202egnp.exe',
  '\u2066a\u2069',
  '\u0000\u0007\u007f\u0085\u2028',
];

describe('text from others', () => {
  test('says nothing to a terminal where it is a name or a message', () => {
    for (const text of hostile) {
      const shown = clean(`a${text}b`);
      assert.doesNotMatch(shown, /[\p{Cc}\u202a-\u202e\u2066-\u2069\u2028]/u, JSON.stringify(text));
      assert.ok(shown.startsWith('a') && shown.endsWith('b'));
      assert.doesNotMatch(writeJson({ text }), /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/);
      assert.deepEqual(JSON.parse(writeJson({ text })), { text });
    }
    assert.equal(clean('two\nlines\tand a tab'), 'two lines and a tab');
    assert.equal(clean('Grüße, 日本, 👩‍💻'), 'Grüße, 日本, 👩‍💻');
  });

  test('keeps of a log its colours alone, however it is cut into pieces', () => {
    const log = `\u001b[1;31mred\u001b[0m ${hostile.join('|')} \u001b[38;5;208mend\u001b[m\r\nnext\rover\n`;
    const whole = new LogFilter(true);
    const expected = whole.write(log) + whole.end();
    assert.equal(expected.replaceAll(/\u001b\[[\d;:]*m/g, '').match(/\u001b/g), null);
    assert.match(expected, /^\u001b\[1;31mred\u001b\[0m /);
    assert.match(expected, /\u001b\[38;5;208mend\u001b\[m\nnext\nover\n\u001b\[0m$/);
    assert.doesNotMatch(expected, /title|cm0gLXJm/);
    fc.assert(
      fc.property(fc.array(fc.nat(log.length), { maxLength: 20 }), (cuts) => {
        const filter = new LogFilter(true);
        const places = [0, ...cuts.toSorted((a, b) => a - b), log.length];
        const pieces = places.slice(1).map((to, at) => log.slice(places[at], to));
        assert.equal(pieces.map((piece) => filter.write(piece)).join('') + filter.end(), expected);
      }),
      { numRuns: 200 },
    );
  });

  test('lets nothing through that is not a colour, whatever comes [promise: build-terminal]', () => {
    const piece = fc.string({
      unit: fc.constantFrom('\u001b', '[', ']', '?', ';', '3', '1', 'm', 'J', '\\', '\u0007', '\u009b', 'x'),
    });
    fc.assert(
      fc.property(fc.array(piece), (pieces) => {
        const filter = new LogFilter(true);
        const shown = pieces.map((text) => filter.write(text)).join('') + filter.end();
        assert.doesNotMatch(shown.replaceAll(/\u001b\[[\d;:]*m/g, ''), /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/);
      }),
      { numRuns: 2000 },
    );
  });
});

describe('the width of text', () => {
  test('counts columns, not characters', () => {
    for (const [text, columns] of [
      ['plain', 5],
      ['日本', 4],
      ['é', 1],
      ['e\u0301', 1],
      ['👩‍💻', 2],
      ['✓ ok', 4],
      ['ﾊﾝｶｸ', 4],
    ] as const)
      assert.equal(width(text), columns, text);
  });

  test('is kept when something is cut off', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.integer({ min: 1, max: 30 }), (text, columns) => {
        const shown = clean(text);
        assert.ok(width(fit(shown, columns)) <= columns);
        if (width(shown) <= columns) assert.equal(fit(shown, columns), shown);
      }),
    );
    assert.equal(fit('日本語', 4), '日…');
  });
});

test('a repository is the same by whichever address', () => {
  const repository = 'git@example.org:team/code.git';
  for (const remote of [
    'git@example.org:team/code.git',
    'example.org:team/code',
    'ssh://git@example.org:2222/team/code.git',
    'https://me@EXAMPLE.org/team/code',
    'git@example.org:/team/code/',
  ])
    assert.ok(isRemoteOf(remote, repository), remote);
  for (const remote of [
    'git@example.org:team/other.git',
    'git@example.com:team/code.git',
    'git@example.org:code.git',
    '',
  ])
    assert.ok(!isRemoteOf(remote, repository), remote);
});
