import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as fc from '../../support/properties.ts';
import { createMask } from '../../../src/shared/domain/masking.ts';
import { run } from '../../../src/shared/lib/processes.ts';
import { secretForms } from '../../../src/shared/domain/secret-forms.ts';

const key = [
  '-----BEGIN SAMPLE KEY-----',
  'MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj',
  'MzEfYyjiWA4R4/M2bS1GB4t7NXp98C3SC6dVMvDuictGeurT8jNbvJZHtCSuYEvu',
  'short',
  'q4/+8AbCdEfGhIjKl==',
  '-----END SAMPLE KEY-----',
  '',
].join('\n');

/** With characters that every encoding treats in its own way. */
const awkward = `p@ss w/rd+"é"\\ <&> 'x'~*!(☃)`;

const hex = (unit: string): string => unit.charCodeAt(0).toString(16).padStart(4, '0');
const hidden = (value: string, text: string): string => createMask([value]).maskText(text);

async function output(command: string, value: string): Promise<string> {
  const { status, stdout, stderr } = await run('sh', ['-c', command], { env: { ...process.env, VALUE: value } });
  assert.equal(status, 0, stderr.toString());
  return stdout.toString();
}

describe('the forms of a secret', () => {
  it('hides what the base64 program makes of it, with and without a line feed at its end', async () => {
    for (const value of ['12345678', '123456789', '1234567890', 'x'.repeat(100), 'y'.repeat(57), 'z'.repeat(58)]) {
      assert.match(hidden(value, await output('printf %s "$VALUE" | base64 -w0', value)), /^\[masked\]$/);
      assert.match(hidden(value, await output('echo "$VALUE" | base64 -w0', value)), /^\[masked\]$/);
    }
  });

  it('hides the lines that the base64 program breaks a long one into', async () => {
    for (const value of ['x'.repeat(58), 'y'.repeat(60), 'z'.repeat(200), key]) {
      for (const width of ['', '-w64']) {
        for (const print of ['printf %s', 'echo']) {
          const text = await output(`${print} "$VALUE" | base64 ${width}`, value);
          assert.match(hidden(value, text), /^(\[masked\]\s)+$/);
          assert.match(hidden(value, text.replaceAll('\n', '\r\n')), /^(\[masked\]\s+)+$/);
        }
      }
    }
  });

  it('hides a password inside the base64 of something longer, at any offset', () => {
    const value = 's3cr3t??>>~~pw';
    for (const before of ['', 'u:', 'us:', 'usr:', 'user:']) {
      for (const after of ['', '@', '@h', '@host']) {
        for (const encoding of ['base64', 'base64url'] as const) {
          const encoded = Buffer.from(`${before}${value}${after}`).toString(encoding).replaceAll('=', '');
          const rest = hidden(value, encoded).replace('[masked]', '');
          // What may remain are the characters that carry at least one bit of a neighbour.
          const own = Math.floor(((before.length + value.length) * 8) / 6) - Math.ceil((before.length * 8) / 6);
          assert.ok(rest.length <= encoded.length - own, rest);
        }
      }
    }
  });

  it('hides what common encoders make of it', async () => {
    const python = [
      'import os,json,urllib.parse as u,base64; v=os.environ["VALUE"]',
      'for f in [u.quote, u.quote_plus, lambda x: u.quote(x,safe=""), lambda x: json.dumps(x)[1:-1],',
      '  lambda x: json.dumps(x,ensure_ascii=False)[1:-1], lambda x: base64.urlsafe_b64encode(x.encode()).decode(),',
      '  lambda x: json.dumps(json.dumps(x,ensure_ascii=False)[1:-1],ensure_ascii=False)[1:-1]]: print(f(v))',
    ].join('\n');
    const { stdout, status } = await run('python3', ['-c', python], { env: { ...process.env, VALUE: awkward } });
    assert.equal(status, 0);
    assert.match(hidden(awkward, stdout.toString()), /^(\[masked\]\n){7}$/);
  });

  it('hides what JavaScript makes of it', () => {
    const encoders: ((value: string) => string)[] = [
      encodeURIComponent,
      encodeURI,
      (value) => encodeURIComponent(value).replaceAll(/%../g, (escape) => escape.toLowerCase()),
      (value) => new URLSearchParams([['', value]]).toString().slice(1),
      (value) => JSON.stringify(value).slice(1, -1),
      (value) => JSON.stringify(value).slice(1, -1).replaceAll('/', '\\/'),
    ];
    for (const encode of encoders) assert.equal(hidden(awkward, `<${encode(awkward)}>`), '<[masked]>', encode(awkward));
  });

  it('hides a document inside a document, whichever way its characters are escaped', async () => {
    const python = [
      'import os,json,itertools; v=os.environ["VALUE"]',
      'both=[True,False]',
      'for a,b in itertools.product(both, both):',
      '  d=json.dumps(json.dumps({"s":v},ensure_ascii=a),ensure_ascii=b)',
      '  up=lambda t: __import__("re").sub(r"(?<=u)[0-9a-f]{4}", lambda m: m[0].upper(), t)',
      '  slash=lambda x: x.replace("/","\\\\/")',
      '  print(d); print(up(d)); print(slash(d))',
      '  once=slash(json.dumps({"s":v},ensure_ascii=a)); print(slash(json.dumps(once,ensure_ascii=b)))',
    ].join('\n');
    for (const value of ['pässwörd', 'пароль/пароль', 'key-🔑🔑-"ü"/x', awkward]) {
      const { stdout, status, stderr } = await run('python3', ['-c', python], {
        env: { ...process.env, VALUE: value, PYTHONIOENCODING: 'utf-8' },
      });
      assert.equal(status, 0, stderr.toString());
      const lines = hidden(value, stdout.toString()).trimEnd().split('\n');
      assert.equal(lines.length, 16);
      for (const line of lines) assert.equal(line, '"{\\"s\\": \\"[masked]\\"}"', value);
    }
    const long = `"é/${'x'.repeat(5000)}"`;
    const escaped = JSON.stringify(JSON.stringify(long).replace('é', '\\u00e9')).slice(3, -3);
    assert.equal(hidden(long, escaped), '[masked]');
  });

  it('hides one encoding inside another', async () => {
    const python = [
      'import os,json,html,urllib.parse as u,base64 as b; v=os.environ["VALUE"]',
      'q=lambda x: u.quote(x,safe=""); e=lambda x: b.b64encode(x.encode()).decode()',
      'for f in [lambda x: q(q(x)), lambda x: u.quote_plus(u.quote_plus(x)), lambda x: u.quote(u.quote(x)),',
      '  lambda x: q(json.dumps(x)[1:-1]), lambda x: q(json.dumps(x,ensure_ascii=False)[1:-1]),',
      '  lambda x: u.quote_plus(json.dumps(x)[1:-1]), lambda x: q(e(x)),',
      '  lambda x: e(e(x)), html.escape, lambda x: html.escape(x,quote=False)]: print(f(v))',
    ].join('\n');
    const options = { env: { ...process.env, VALUE: awkward } };
    const { stdout, status, stderr } = await run('python3', ['-c', python], options);
    assert.equal(status, 0, stderr.toString());
    for (const line of hidden(awkward, stdout.toString()).trimEnd().split('\n')) assert.equal(line, '[masked]');
    // A document with the value in it, encoded whole: what is left are characters that neighbours have a part in.
    for (const json of [{ s: awkward }, { longer: awkward }, { token: awkward, more: 1 }]) {
      const escaped = JSON.stringify(json).replaceAll(/[^\0-\x7e]/g, (unit) => `\\u${hex(unit)}`);
      for (const text of [JSON.stringify(json), escaped]) {
        const encoded = Buffer.from(text).toString('base64');
        const own = Math.floor((JSON.stringify(awkward).length * 8) / 6) - 4;
        assert.ok(hidden(awkward, encoded).replace('[masked]', '').length <= encoded.length - own, encoded);
      }
    }
  });

  it('costs no more than so much memory, however many values there are and whatever is in them', () => {
    const value = (number: number): string => `"é/<${number}>' ${'&+ü\\'.repeat(60)}`;
    const values = Array.from({ length: 50 }, (_, number) => value(number));
    const bytes = secretForms(values).reduce((sum, form) => sum + form.length, 0);
    const once = 150 * Buffer.byteLength(values.join('')); // the forms that are looked for in every value
    assert.ok(bytes < once + 1024 * 1024, String(bytes));
    // Long ones do not take the room of short ones.
    const last = createMask([...values, 'pässwörd']);
    assert.equal(last.maskText('p\\\\u00e4ssw\\\\u00f6rd'), '[masked]');
  });

  it('hides what a shell prints of it', async () => {
    const value = "it's a  secret 'word'";
    const traced = await run('bash', ['--norc', '-xc', 'test -n "$VALUE"'], { env: { ...process.env, VALUE: value } });
    assert.equal(hidden(value, traced.stderr.toString()), "+ test -n '[masked]'\n");
    assert.equal(hidden(value, await output('echo $VALUE', value)), '[masked]\n');
  });

  it('hides a value of several lines whole and line by line', () => {
    assert.equal(hidden(key, `>${key}<`), '>[masked]<');
    assert.equal(hidden(key, `>${key.replaceAll('\n', '\r\n')}<`), '>[masked]<');
    assert.equal(hidden(key, `>${key.trim()}<`), '>[masked]<');
    assert.equal(hidden(key, `>${JSON.stringify(key)}<`), '>"[masked]"<');
    assert.equal(hidden(key, `>${key.trim().replaceAll('\n', ' ')}<`), '>[masked]<');
    assert.equal(hidden(key, key.trim().replaceAll(/^/gm, '| ')).replaceAll('| [masked]', '').trim(), '| short');
  });

  it('hides a value without the white space around it', () => {
    assert.equal(hidden('  token-1234\n', 'is token-1234.'), 'is [masked].');
    assert.equal(hidden('first line 1\n   second line\t\r\n', 'a second line b first line 1'), 'a [masked] b [masked]');
  });

  it('names each form once, and none below eight bytes', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: 'binary', maxLength: 40 }), { maxLength: 5 }), (values) => {
        const forms = secretForms(values);
        assert.ok(forms.every((form) => form.length >= 8));
        assert.equal(new Set(forms.map((form) => form.toString('latin1'))).size, forms.length);
      }),
    );
  });

  it('names none below eight bytes for a value that base64 breaks just before its end either', () => {
    for (let length = 40; length < 130; length++) {
      assert.ok(
        secretForms(['x'.repeat(length)]).every((form) => form.length >= 8),
        `${length} characters`,
      );
    }
  });

  it('hides any value in the encodings of the platform', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme', minLength: 8, maxLength: 200 }), (value) => {
        fc.pre(value.trim() !== '');
        const encodings = [
          value,
          encodeURIComponent(value),
          JSON.stringify(value).slice(1, -1),
          Buffer.from(value).toString('base64'),
          Buffer.from(value).toString('base64url'),
        ];
        for (const encoding of encodings) assert.equal(hidden(value, `{${encoding}}`), '{[masked]}');
      }),
    );
  });
});
