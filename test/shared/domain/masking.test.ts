import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createMask } from '../../../src/shared/domain/masking.ts';

const secret = 'correct-horse/battery';

function maskAll(values: string[], ...chunks: (string | Buffer)[]): string {
  const mask = createMask(values);
  return Buffer.concat([...chunks.map((chunk) => mask.push(Buffer.from(chunk))), mask.flush()]).toString();
}

const byByte = (text: string): string[] => text.split('');

describe('masking a stream', () => {
  it('hides a value and leaves everything around it', () => {
    assert.equal(maskAll([secret], `a ${secret} b ${secret}\n`), 'a [masked] b [masked]\n');
  });

  it('hides a value wherever a chunk boundary cuts through it [promise: build-secrets]', () => {
    const text = `>${secret}<`;
    for (let cut = 0; cut <= text.length; cut++) {
      assert.equal(maskAll([secret], text.slice(0, cut), text.slice(cut)), '>[masked]<', `cut at ${cut}`);
    }
    assert.equal(maskAll([secret], ...byByte(text)), '>[masked]<');
  });

  it('shows a prompt at once, and only what may become a secret waits', () => {
    const mask = createMask([secret]);
    assert.equal(mask.push(Buffer.from('Password: ')).toString(), 'Password: ');
    assert.equal(mask.push(Buffer.from('is it correct')).toString(), 'is it ');
    assert.equal(mask.push(Buffer.from('-horse')).toString(), '');
    assert.equal(mask.push(Buffer.from('?')).toString(), 'correct-horse?');
    assert.equal(mask.flush().length, 0);
  });

  it('shows at the end of the stream what was held back, and then starts afresh', () => {
    const mask = createMask([secret]);
    assert.equal(mask.push(Buffer.from('correct-hor')).length, 0);
    assert.equal(mask.flush().toString(), 'correct-hor');
    assert.equal(mask.push(Buffer.from('se/battery')).toString(), 'se/battery');
    assert.equal(mask.flush().length, 0);
  });

  it('hides the longer of two secrets that begin alike', () => {
    const values = ['password', 'password-of-the-day'];
    assert.equal(maskAll(values, 'password-of-the-day.'), '[masked].');
    assert.equal(maskAll(values, 'password-of-the-night.'), '[masked]-of-the-night.');
    assert.equal(maskAll(values, ...byByte('password-of-the-day.')), '[masked].');
    assert.equal(maskAll(values, ...byByte('password-of-the-night.')), '[masked]-of-the-night.');
  });

  it('shows the mask of a finished secret although a longer one may follow', () => {
    const mask = createMask(['password', 'password-of-the-day']);
    assert.equal(mask.push(Buffer.from('password')).toString(), '[masked]');
    assert.equal(mask.push(Buffer.from('-of-the-')).toString(), '');
    assert.equal(mask.push(Buffer.from('day!')).toString(), '!');
  });

  it('hides both of two secrets that overlap, under one mask', () => {
    assert.equal(maskAll(['abcdefgh', 'efghijkl'], '<abcdefghijkl>'), '<[masked]>');
    assert.equal(maskAll(['abcdefgh', 'efghijkl'], ...byByte('<abcdefghijkl>')), '<[masked]>');
    assert.equal(maskAll(['aaaaaaaa'], 'a'.repeat(21)), '[masked]');
    assert.equal(
      maskAll(['abcdefgh', '--abcdefgh--'], ...byByte('--abcdefgh-- --abcdefgh-+')),
      '[masked] --[masked]-+',
    );
  });

  it('gives each of two neighbours its own mask', () => {
    assert.equal(maskAll(['abcdefgh', 'ijklmnop'], 'abcdefghijklmnop'), '[masked][masked]');
  });

  it('takes values of eight characters, and no shorter ones', () => {
    assert.equal(maskAll(['1234567'], '1234567'), '1234567');
    assert.equal(maskAll(['12345678'], '12345678'), '[masked]');
    assert.equal(maskAll(['äöüäöüä'], 'äöüäöüä'), 'äöüäöüä');
    assert.equal(maskAll(['äöüäöüäö'], 'äöüäöüäö'), '[masked]');
  });

  it('does not take white space for a secret', () => {
    assert.equal(maskAll(['            ', '\n\n\n\n\n\n\n\n\n\n'], 'a            b'), 'a            b');
  });

  it('reads no value as a pattern', () => {
    for (const value of ['.*.*.*.*.*', '[a-z]+(x|y)$', '\\\\server\\share', '$&$1$`${x}', '[masked][masked]']) {
      assert.equal(maskAll([value], `x${value}y`), 'x[masked]y', value);
      assert.equal(maskAll([value], 'plain text $& stays'), 'plain text $& stays');
    }
  });

  it('passes every byte that is no secret, valid text or not', () => {
    const noise = Buffer.from(Array.from({ length: 2048 }, (_, index) => (index * 197) & 255));
    const mask = createMask([secret]);
    const shown = Buffer.concat([mask.push(noise), mask.push(Buffer.from(secret)), mask.push(noise), mask.flush()]);
    assert.deepEqual(shown, Buffer.concat([noise, Buffer.from('[masked]'), noise]));
  });

  it('hands the chunk itself back when nothing is hidden or held', () => {
    const chunk = Buffer.from('nothing to see here');
    assert.equal(createMask([]).push(chunk), chunk);
    assert.equal(createMask(['short']).push(chunk), chunk);
    assert.equal(createMask([secret]).push(chunk), chunk);
    assert.equal(createMask([]).flush().length, 0);
  });

  it('masks a text apart from the stream', () => {
    const mask = createMask([secret]);
    mask.push(Buffer.from('correct-'));
    assert.equal(mask.maskText(`horse/battery ${secret} é correct-`), 'horse/battery [masked] é correct-');
    assert.equal(mask.push(Buffer.from('horse/battery')).toString(), '[masked]');
    assert.equal(createMask([]).maskText('as it is'), 'as it is');
  });

  it('hides a megabyte that consists of nothing but beginnings of secrets in one go', () => {
    // A search that starts over at every position would need some ten thousand million comparisons here.
    const value = `${'a'.repeat(10_000)}b`;
    const text = 'a'.repeat(1_000_000);
    assert.equal(maskAll([value], text), text);
    assert.equal(maskAll([value], `${text}b`), `${text.slice(10_000)}[masked]`);
  });
});
