import assert from 'node:assert/strict';

/** An element, read by a strict reader of XML. */
export interface Element {
  name: string;
  attributes: Record<string, string>;
  children: Element[];
  text: string;
}

const entities: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

function unescaped(text: string): string {
  assert.ok(!/&(?!(?:amp|lt|gt|quot|apos|#\d+);)/.test(text), `an ampersand that is none: ${text}`);
  return text.replaceAll(/&(?:(\w+)|#(\d+));/g, (_, name: string | undefined, code: string) =>
    name === undefined ? String.fromCodePoint(Number(code)) : (entities[name] ?? assert.fail(name)),
  );
}

/** Reads a document without comments and declarations, and refuses everything that XML 1.0 does not allow. */
export function readXml(document: string): Element {
  assert.ok(!/[^\t\n\r\u0020-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/u.test(document), 'a character that XML has not');
  const top: Element = { name: '', attributes: {}, children: [], text: '' };
  const open = [top];
  let rest = document.replace(/^<\?xml version="1\.0" encoding="UTF-8"\?>\n/, '');
  while (rest !== '') {
    const within = open.at(-1) ?? assert.fail('more is closed than was opened');
    const [token = '', closing, name = '', written = '', selfClosing] =
      /^<(\/)?([A-Za-z][\w-]*)((?:\s+[\w-]+="[^"<]*")*)\s*(\/)?>/.exec(rest) ??
      /^[^<]+/.exec(rest) ??
      assert.fail(rest);
    rest = rest.slice(token.length);
    if (name === '') within.text += unescaped(token);
    else if (closing) assert.equal(open.pop()?.name, name);
    else {
      const pairs = Array.from(written.matchAll(/([\w-]+)="([^"]*)"/g), ([, key = '', value = '']) => [key, value]);
      assert.equal(new Set(pairs.map(([key]) => key)).size, pairs.length, 'an attribute twice');
      const attributes = Object.fromEntries(pairs.map(([key, value]) => [key, unescaped(value ?? '')]));
      const element: Element = { name, attributes, children: [], text: '' };
      within.children.push(element);
      if (!selfClosing) open.push(element);
    }
  }
  assert.equal(open.length, 1, 'everything is closed');
  assert.equal(top.children.length, 1);
  return top.children[0] ?? assert.fail();
}
