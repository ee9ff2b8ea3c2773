import type { FastifyInstance, FastifyRequest } from 'fastify';
import { measuredNames } from '../../shared/lib/untrusted-json.ts';
import { Digits } from '../../shared/records/fields.ts';
import { fromJson, mostFields, RawCollector, unreadable, type RawGroup } from '../../shared/records/raw.ts';

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

/** Numbers keep all their digits. A name that occurs twice in one object is refused. */
export function parseJson(text: string): RawGroup {
  if (text.trim() === '') return fromJson({});
  const names = measuredNames(text, limits);
  if (names === undefined) throw unreadable();
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

/** Refuses early what `fromJson` would refuse anyway. */
const limits = { depth: 32, values: 2 * mostFields, names: 2 * mostFields };

/** Uses Node's own parser. File parts are refused. */
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
