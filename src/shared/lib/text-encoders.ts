/* How libraries write a text inside JSON, a URL or HTML. One text has many valid forms. */

export type Encoder = (text: string) => string;

/** As short as JSON allows. */
export const plainJson: Encoder = (text) => JSON.stringify(text).slice(1, -1);

/** Libraries also escape slashes, HTML's special characters, or non-ASCII characters, in either case. */
function jsonEncoder(slashes: boolean, html: RegExp | undefined, others: 'raw' | 'lower' | 'upper'): Encoder {
  return (text) => {
    const json = slashes ? plainJson(text).replaceAll('/', '\\/') : plainJson(text);
    const safe = html ? unicode(json, html, html === quotesToo) : json;
    // Without the `u` flag: JSON escapes UTF-16 units, so that a character beyond the BMP becomes two escapes.
    return others === 'raw' ? safe : unicode(safe, /[^\0-\x7e]/g, others === 'upper');
  };
}

const quotesToo = /[<>&']/g;
export const jsonEncoders: readonly Encoder[] = [
  ...[false, true].flatMap((slashes) =>
    [undefined, /[<>&]/g, quotesToo].flatMap((html) =>
      (['raw', 'lower', 'upper'] as const).map((others) => jsonEncoder(slashes, html, others)),
    ),
  ),
  (text) => unicode(plainJson(text).replaceAll('\\"', '\\u0022'), /[<>&'+`]|[^\0-\x7e]/g, true), // .NET
];

/** JavaScript, Python, PHP and Go: masking searches for these inside other encodings. */
export const usualJson = [
  plainJson,
  jsonEncoder(false, undefined, 'lower'),
  jsonEncoder(true, undefined, 'lower'),
  jsonEncoder(true, undefined, 'raw'),
  jsonEncoder(false, /[<>&]/g, 'raw'),
];

export function markupForms(text: string): string[] {
  const content = text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
  const attribute = content.replaceAll('"', '&quot;');
  const quotes = ['&apos;', '&#39;', '&#x27;', '&#039;'];
  return [content, attribute, ...quotes.map((quote) => attribute.replaceAll("'", quote))];
}

function unicode(text: string, which: RegExp, upper = false): string {
  return text.replace(which, (unit) => {
    const digits = unit.charCodeAt(0).toString(16).padStart(4, '0');
    return '\\u' + (upper ? digits.toUpperCase() : digits);
  });
}

/** Percent-encoding leaves some characters unchanged. The names are the standards and libraries with each set. */
const leftAlone = {
  'RFC 3986': /[\w.~-]/,
  encodeURIComponent: /[\w.~!'()*-]/,
  'HTML forms, Java': /[\w.*-]/,
  'Python quote': /[\w.~/-]/,
  encodeURI: /[\w.~!'()*;/?:@&=+$,#-]/,
};

/** With capital and small digits, and with a space as `%20` and as `+`. */
function urlEncoders(alone: RegExp): [Encoder, Encoder, Encoder, Encoder] {
  const table = Array.from({ length: 256 }, (_, byte) => String.fromCharCode(byte)).map((one) =>
    alone.test(one) ? one : percent(one),
  );
  const upper: Encoder = (text) => Array.from(Buffer.from(text), (byte) => table[byte]).join('');
  const lower: Encoder = (text) => upper(text).replace(/%../g, (escape) => escape.toLowerCase());
  const plus =
    (encode: Encoder): Encoder =>
    (text) =>
      encode(text).replaceAll('%20', '+');
  return [upper, lower, plus(upper), plus(lower)];
}

export const allUrlEncoders: Encoder[] = Object.values(leftAlone).flatMap(urlEncoders);
const [inComponent] = urlEncoders(leftAlone.encodeURIComponent);
const [strict, strictLower, strictPlus] = urlEncoders(leftAlone['RFC 3986']);
const [, , inForm] = urlEncoders(leftAlone['HTML forms, Java']);

/** Masking searches for these around other encodings. */
export const usualUrl: Encoder[] = [inComponent, strict, strictLower, strictPlus, inForm];

function percent(character: string): string {
  return '%' + character.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0');
}
