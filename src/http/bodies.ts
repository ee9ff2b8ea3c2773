import type { FastifyInstance, FastifyRequest } from 'fastify';
import { parse as parseLosslessJson } from 'lossless-json';
import { fromJson, RawCollector, unreadable, type RawGroup } from './raw.ts';

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

/** Numbers stay text with all digits; the parser refuses a name that occurs twice in one object. */
export function parseJson(text: string): RawGroup {
  if (text.trim() === '') return fromJson({});
  if (!isShallow(text)) throw unreadable();
  let value: unknown;
  try {
    value = parseLosslessJson(text, undefined, (digits) => digits);
  } catch {
    throw unreadable();
  }
  return fromJson(value);
}

/** The parser recurses: a body of nothing but brackets must not overflow the stack. */
function isShallow(text: string): boolean {
  let depth = 0;
  let inString = false;
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at];
    if (inString) {
      if (character === '\\') at += 1;
      else if (character === '"') inString = false;
    } else if (character === '"') {
      inString = true;
    } else if (character === '[' || character === '{') {
      depth += 1;
      if (depth > 32) return false;
    } else if (character === ']' || character === '}') {
      depth -= 1;
    }
  }
  return true;
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
