import assert from 'node:assert/strict';
import * as fc from 'fast-check';
import { RE2JS } from 're2js';
import { annotationIn } from '../src/server/streams/annotations.ts';
import { expressionOf } from '../src/server/ui/browser/seen-before.ts';
import { longest } from '../src/shared/domain/bounds.ts';
import { mutated } from './mutations.ts';
import { pure } from './target.ts';

const part = fc.constantFrom(
  '::error ',
  '::notice ',
  'file=src/a.c',
  ',line=12',
  ',endLine=13',
  ',title=x%2C',
  '::',
  'a.c:1:2: error: ',
  '%0A',
  '\x1b[31m',
  '\u202e',
  '\t',
  'é',
  '(*',
  '0f3a9bc2de',
  ' ',
);
const line = fc.array(part, { maxLength: 12 }).map((parts) => Buffer.from(parts.join('')));

/** What stands in an annotation is bounded, and acts on no page and no terminal. */
export const annotations = pure(
  'annotations',
  300,
  fc.property(mutated(line), (bytes) => {
    const found = annotationIn(bytes.toString(), 1);
    if (!found) return;
    const { file, title, message, line: at, endLine } = found;
    assert.ok(file !== '' && at >= 1 && (endLine === null || endLine >= at));
    assert.ok(Buffer.byteLength(message) <= longest.annotation + 2);
    assert.ok(!/[\p{Cc}\p{Cf}\p{Cs}]/u.test(`${file}${title ?? ''}${message.replaceAll(/[\n\t]/g, '')}`));
  }),
);

/** A line without signs for what cannot be seen matches the expression made of it. */
export const seenBefore = pure(
  'seen-before',
  200,
  fc.property(mutated(line), (bytes) => {
    const text = bytes.toString().replaceAll(/[\p{Cc}\p{Cf}\p{Cs}\ufffd\u2400-\u2421]/gu, '');
    const expression = expressionOf(text);
    assert.ok(expression.length <= longest.expression);
    if (expression !== '') assert.ok(RE2JS.compile(expression).test(text), expression);
  }),
);
