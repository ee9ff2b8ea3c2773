import type { FastifyInstance, FastifyRequest } from 'fastify';
import { Digits } from '../records/fields.ts';
import { fromJson, mostFields, RawCollector, unreadable, type RawGroup } from './raw.ts';

/** Registers the three kinds of body. Any other or broken body gets one clear error. */
export function readBodies(server: FastifyInstance): void {
  const read = (type: string, parse: (body: Buffer) => RawGroup | undefined): void => {
    server.addContentTypeParser(type, { parseAs: 'buffer' }, (_, body: Buffer, done) => {
      let parsed: RawGroup | undefined;
      try {
        parsed = parse(body);
      } catch (error) {
        return done(error as Error);
      }
      return done(null, parsed);
    });
  };
  server.removeAllContentTypeParsers();
  read('application/x-www-form-urlencoded', (body) => parseForm(utf8(body)));
  read('application/json', (body) => parseJson(utf8(body)));
  server.addContentTypeParser('multipart/form-data', { parseAs: 'buffer' }, parseMultipart);
  read('*', (body) => {
    if (body.length > 0) throw unreadable();
    return undefined;
  });
}

const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: false });

function utf8(bytes: Buffer): string {
  try {
    return strictUtf8.decode(bytes);
  } catch {
    throw unreadable();
  }
}

export function parseForm(text: string): RawGroup {
  const collector = new RawCollector();
  for (const pair of text.split('&', 2000)) {
    if (pair === '') continue;
    const equals = pair.indexOf('=');
    const name = equals < 0 ? pair : pair.slice(0, equals);
    collector.add(decode(name), equals < 0 ? '' : decode(pair.slice(equals + 1)));
  }
  return collector.root;
}

function decode(text: string): string {
  const spaced = text.includes('+') ? text.replaceAll('+', ' ') : text;
  if (!spaced.includes('%')) return spaced;
  try {
    return decodeURIComponent(spaced);
  } catch {
    throw unreadable();
  }
}

/** Numbers keep all their digits; a name that occurs twice in one object is refused. */
export function parseJson(text: string): RawGroup {
  if (text.trim() === '') return fromJson({});
  const names = countNames(text);
  let value: unknown;
  try {
    value = JSON.parse(text, digitsOf as (key: string, value: unknown) => unknown);
  } catch {
    throw unreadable();
  }
  return fromJson(value, names);
}

function digitsOf(_: string, value: unknown, { source = '' }: { source?: string }): unknown {
  return typeof value === 'number' ? new Digits(source) : value;
}

/** How many signs JSON with `mostFields` values has: brackets, a comma, a colon, and the quotes of a name and a text. */
const mostMarks = 6 * mostFields;

/** How many names the objects in a text have. What is nested deeply, or has too many values, is refused unread. */
function countNames(text: string): number {
  const marks = /["[\]{},:]/g;
  let [count, depth, names] = [0, 0, 0];
  for (let mark = marks.exec(text)?.[0]; mark !== undefined; mark = marks.exec(text)?.[0]) {
    count += 1;
    if (mark === '"') marks.lastIndex = endOfText(text, marks.lastIndex);
    else if (mark === ':') names += 1;
    else if (mark === '[' || mark === '{') depth += 1;
    else if (mark !== ',') depth -= 1;
    if (depth > 32 || count > mostMarks) throw unreadable();
  }
  return names;
}

/** The position after the quote that ends a text. */
function endOfText(text: string, from: number): number {
  for (let at = from; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === 0x5c) at += 1;
    else if (code === 0x22) return at + 1;
  }
  throw unreadable();
}

/** Node's own parser; file parts are not accepted. */
async function parseMultipart(request: FastifyRequest, body: Buffer): Promise<RawGroup> {
  const collector = new RawCollector();
  let parts: FormData;
  try {
    parts = await new Response(body, { headers: { 'content-type': request.headers['content-type'] ?? '' } }).formData();
  } catch {
    throw unreadable();
  }
  for (const [name, value] of parts) {
    // The parser replaces broken UTF-8 by this character.
    if (typeof value !== 'string' || `${name}${value}`.includes('\uFFFD')) throw unreadable();
    collector.add(name, value);
  }
  return collector.root;
}
