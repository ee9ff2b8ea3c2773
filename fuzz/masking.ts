import assert from 'node:assert/strict';
import * as fc from 'fast-check';
import { createMask } from '../src/shared/domain/masking.ts';
import { secretForms } from '../src/shared/domain/secret-forms.ts';
import { pure } from './target.ts';

/** What the mask must show of a whole text, found the slow and obvious way. */
function expected(forms: Buffer[], text: Buffer): Buffer {
  const found: [number, number][] = [];
  for (const form of forms) {
    for (let at = text.indexOf(form); at !== -1; at = text.indexOf(form, at + 1)) found.push([at, at + form.length]);
  }
  found.sort(([a, aEnd], [b, bEnd]) => a - b || bEnd - aEnd);
  const parts: Buffer[] = [];
  let done = 0;
  for (const [start, end] of found) {
    if (start >= done) parts.push(text.subarray(done, start), Buffer.from('[masked]'));
    done = Math.max(done, end);
  }
  return Buffer.concat([...parts, text.subarray(done)]);
}

/** How many bytes at the end of a text are the beginning of a form that is longer than they are. */
function undecided(forms: Buffer[], text: Buffer): number {
  let most = 0;
  for (const form of forms) {
    for (let length = Math.min(form.length - 1, text.length); length > most; length--) {
      if (text.compare(form, 0, length, text.length - length) === 0) most = length;
    }
  }
  return most;
}

const few = fc.constantFrom('a', 'b', '\n', '/');
const value = fc.oneof(
  fc.string({ unit: few, minLength: 6, maxLength: 24 }),
  fc.string({ unit: 'binary', minLength: 8, maxLength: 20 }),
);

// Texts are made of whole forms, of torn ones and of noise in the same few characters, so that near misses abound.
const scene = fc.array(value, { minLength: 1, maxLength: 4 }).chain((values) => {
  const forms = secretForms(values);
  const noise = fc.string({ unit: few, maxLength: 12 }).map((text) => Buffer.from(text));
  const piece =
    forms.length === 0
      ? noise
      : fc.oneof(
          noise,
          fc.uint8Array({ maxLength: 6 }).map((bytes) => Buffer.from(bytes)),
          fc.constantFrom(...forms),
          fc
            .tuple(fc.constantFrom(...forms), fc.nat(40), fc.nat(40))
            .map(([form, from, to]) => form.subarray(from % form.length, Math.max(from % form.length, to))),
        );
  return fc.record({
    values: fc.constant(values),
    forms: fc.constant(forms),
    chunks: fc.array(
      fc.array(piece, { maxLength: 3 }).map((parts) => Buffer.concat(parts)),
      { maxLength: 12 },
    ),
  });
});

/** Whatever the secrets, the text and the cuts: shown is exactly what a search of the whole text would leave. */
export const masking = pure(
  'masking',
  200,
  fc.property(scene, ({ values, forms, chunks }) => {
    const mask = createMask(values);
    const shown = Buffer.concat([...chunks.map((chunk) => mask.push(chunk)), mask.flush()]);
    assert.deepEqual(shown, expected(forms, Buffer.concat(chunks)));
  }),
);

/** No byte is held back that is decided, and none is shown that is not. */
export const maskingDelay = pure(
  'masking-delay',
  100,
  fc.property(scene, ({ values, forms, chunks }) => {
    const mask = createMask(values);
    let shown = Buffer.alloc(0);
    let seen = Buffer.alloc(0);
    for (const chunk of chunks) {
      shown = Buffer.concat([shown, mask.push(chunk)]);
      seen = Buffer.concat([seen, chunk]);
      const whole = expected(forms, seen);
      const waiting = undecided(forms, seen);
      // Of what the mask would show if the stream ended here, at most the undecided bytes may be missing …
      assert.ok(whole.subarray(0, shown.length).equals(shown));
      assert.ok(whole.length - shown.length <= waiting);
      // … and of these none is shown as it is.
      const tail = seen.subarray(seen.length - waiting);
      if (waiting > 0 && whole.subarray(-waiting).equals(tail)) assert.equal(whole.length - shown.length, waiting);
    }
  }),
);
