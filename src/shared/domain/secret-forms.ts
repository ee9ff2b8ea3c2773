/*
 * The forms in which a secret appears in a build's output.
 *
 * A build may print it unchanged, only one of its lines, or encoded in a URL, in JSON or as `base64`. The `base64` may
 * be of a longer text such as `user:password`. Each form is a fixed sequence of bytes, and masking searches for all
 * forms of all secrets at once.
 *
 * A form has at least eight bytes: shorter ones would match in ordinary words, and a log full of holes reveals more
 * than it hides.
 */

import { jsonEncoders, markupForms, plainJson, allUrlEncoders, usualJson, usualUrl } from '../lib/text-encoders.ts';

export const shortestSecret = 8;

/** Longer texts are searched without their rarer forms: a form costs some 25 bytes of memory per byte. */
const longText = 8192;

/** `base64` and MIME break lines after 76 characters, PEM and OpenSSL after 64. */
const base64LineLengths = [76, 64];

/** There are many twice-encoded forms. Limits keep a long private key from using up a build's memory. */
const longestTwice = 1024;
const mostTwice = 1024 * 1024;

export function secretForms(values: Iterable<string>): Buffer[] {
  const forms = new Set<string>(); // latin1: one character per byte, so that equal bytes are equal strings
  const add = (text: string): number => {
    const { size } = forms;
    const bytes = Buffer.from(text).toString('latin1');
    return forms.add(bytes).size > size ? bytes.length : 0;
  };
  const short = new Set<string>();
  for (const value of values) {
    for (const text of asEchoed(value)) if (isSecret(text)) add(text);
    for (const text of textsOf(value)) {
      if (!isSecret(text)) continue;
      add(text);
      for (const form of jsonForms(text)) add(form);
      for (const form of base64Forms(text)) add(form);
      if (text.length > longText) continue;
      for (const encode of allUrlEncoders) add(encode(text));
      for (const form of markupForms(text)) add(form);
      add(text.replaceAll("'", "'\\''")); // as `set -x` prints it
      if (text.length <= longestTwice) short.add(text);
    }
  }
  let room = mostTwice;
  for (const text of [...short].sort((a, b) => a.length - b.length)) {
    for (const form of twiceEncoded(text)) if (room > 0) room -= add(form);
    if (room <= 0) break;
  }
  return [...forms].map((form) => Buffer.from(form, 'latin1'));
}

export function hasForms(value: string): boolean {
  return [...asEchoed(value), ...textsOf(value)].some(isSecret);
}

/** White space is not a secret, and masking it would break every table and indentation. */
function isSecret(text: string): boolean {
  return text.length >= shortestSecret && Array.from(text).length >= shortestSecret && text.trim() !== '';
}

/** The value and its lines, each also trimmed, because a shell or a paste adds or removes white space. */
function textsOf(value: string): Set<string> {
  const texts = new Set([value, value.trim()]);
  for (const line of value.split(/\r\n|\r|\n/)) texts.add(line).add(line.trim());
  return texts;
}

/** A terminal turns line feeds into CR LF. An unquoted `echo $VALUE` turns any white space into single spaces. */
function asEchoed(value: string): string[] {
  const unix = value.replaceAll('\r\n', '\n');
  return [unix, unix.replaceAll('\n', '\r\n'), value.trim().split(/\s+/).join(' ')];
}

function jsonForms(text: string): string[] {
  const plain = plainJson(text);
  const forms = [plain, plainJson(plain)]; // the second: a document inside a document
  if (text.length > longText) return forms;
  forms.push(...jsonEncoders.map((encode) => encode(text)));
  forms.push(...usualJson.map((encode) => plainJson(encode(text))));
  return forms;
}

/** Encoded twice as JSON, for a URL or as base64: by one library, or by it and a common library. */
function* twiceEncoded(text: string): Generator<string> {
  for (const encode of jsonEncoders) {
    const once = encode(text);
    yield encode(once);
    yield plainJson(once);
  }
  for (const json of new Set(usualJson.map((encode) => encode(text)))) {
    for (const encode of jsonEncoders) yield encode(json);
    if (json === text) continue;
    yield* base64Forms(json);
    for (const encode of usualUrl) yield encode(json);
  }
  for (const encode of allUrlEncoders) yield encode(encode(text));
  for (const base64 of base64Forms(text)) {
    yield base64.replaceAll('/', '\\/');
    for (const encode of usualUrl) yield encode(base64);
  }
  yield* base64Forms(Buffer.from(text).toString('base64'));
}

function base64Forms(text: string): Set<string> {
  const forms = new Set<string>();
  for (const bytes of [Buffer.from(text), Buffer.from(text + '\n')]) {
    // `echo "$SECRET" | base64` adds a line feed, which changes the last characters.
    const alone = bytes.toString('base64');
    forms.add(alone).add(alone.replaceAll('=', ''));
    for (const length of base64LineLengths) for (const line of wrapped(alone, length)) forms.add(line);
  }
  const bytes = Buffer.from(text);
  for (const offset of [0, 1, 2]) forms.add(insideBase64(bytes, offset));
  for (const form of forms) forms.add(form.replaceAll('+', '-').replaceAll('/', '_'));
  return forms;
}

/** The base64 of `bytes` at `offset` (modulo three), without characters that depend on neighbouring bytes. */
function insideBase64(bytes: Buffer, offset: number): string {
  const encoded = Buffer.concat([Buffer.alloc(offset), bytes]).toString('base64url');
  const first = Math.ceil((offset * 8) / 6);
  const last = Math.floor(((offset + bytes.length) * 8) / 6);
  return encoded.slice(first, last).replaceAll('-', '+').replaceAll('_', '/');
}

/** A last line that is too short for a form is joined with the line before it. */
function wrapped(encoded: string, length: number): string[] {
  if (encoded.length <= length) return [];
  const lines = encoded.match(new RegExp(`.{1,${length}}`, 'g')) ?? [];
  const last = lines.at(-1) ?? '';
  if (last.length >= shortestSecret) return lines;
  const before = lines.at(-2) ?? '';
  return [...lines.slice(0, -1), `${before}\n${last}`, `${before}\r\n${last}`];
}
