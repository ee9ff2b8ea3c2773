import type { CommitMetadata } from '../../shared/protocol/index.ts';
import { boundedMessage, boundedPerson } from '../../shared/domain/commit-bounds.ts';
import { trimEnd } from './phrases.ts';

/** Room for a thousand parents; the fields that are read follow them. */
const longestHeader = 64 * 1024;

/** git's own formatting would drop a name if its date is malformed, and all dates before 1970. */
export function readCommitObject(bytes: Buffer): CommitMetadata {
  const end = bytes.indexOf('\n\n');
  const headerBytes = bytes.subarray(0, Math.min(end < 0 ? bytes.length : end, longestHeader));
  const messageBytes = end < 0 ? Buffer.alloc(0) : bytes.subarray(end + 2);
  const encoding = field(headerBytes.toString('latin1'), 'encoding');
  const header = decode(headerBytes, encoding);
  const author = readIdentity(field(header, 'author') ?? '');
  const committer = readIdentity(field(header, 'committer') ?? '');
  const parent = field(header, 'parent');
  const tree = field(header, 'tree');
  return {
    ...(tree !== undefined && fullSha.test(tree) && { tree }),
    ...(parent !== undefined && fullSha.test(parent) && { parent }),
    message: boundedMessage(trimEnd(decode(messageBytes, encoding), '\n')),
    authorName: author.name,
    authorEmail: author.email,
    authoredDate: author.date,
    committerName: committer.name,
    committerEmail: committer.email,
    committedDate: committer.date,
  };
}

const fullSha = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;

function field(header: string, name: string): string | undefined {
  const line = header.split('\n').find((one) => one.startsWith(`${name} `));
  return line?.slice(name.length + 1) || undefined;
}

/** `Name <email> seconds offset`. Every part may be missing or malformed. */
function readIdentity(line: string): { name: string; email: string; date: string } {
  const opens = line.indexOf('<');
  const closes = line.indexOf('>', opens);
  if (opens < 0 || closes < 0) return { name: '', email: '', date: formatDate(0, '+0000') };
  const words = line
    .slice(closes + 1, closes + 1 + longestDate)
    .split(/\s/)
    .filter(Boolean);
  const at = words.findIndex((word) => /^-?\d+$/.test(word));
  const [seconds = '0', offset = ''] = at < 0 ? [] : words.slice(at);
  return {
    name: boundedPerson(line.slice(0, opens).trim()),
    email: boundedPerson(line.slice(opens + 1, closes).trim()),
    date: formatDate(Number(seconds), /^[+-]\d+$/.test(offset) ? offset : '+0000'),
  };
}

const longestDate = 200;

// A spare day at both ends for the offset: the year must keep its four digits.
const earliest = Date.parse('0001-01-02T00:00:00Z') / 1000;
const latest = Date.parse('9999-12-30T00:00:00Z') / 1000;

/** `2026-11-14T23:52:44+02:00`: the author's local time, and its offset from UTC. */
export function formatDate(seconds: number, offset: string): string {
  const [, sign = '+', hours = '00', minutes = '00'] = /^([+-])(\d\d)(\d\d)$/.exec(offset) ?? [];
  const size = Number(hours) * 60 + Number(minutes);
  const usable = Number(minutes) < 60 && size <= 14 * 60; // no time zone has a larger offset
  const shift = usable ? (sign === '-' ? -size : size) : 0;
  const bounded = Math.min(Math.max(seconds, earliest), latest);
  const wall = new Date((bounded + shift * 60) * 1000).toISOString().slice(0, 19);
  return `${wall}${usable ? `${sign}${hours}:${minutes}` : '+00:00'}`;
}

/** Invalid bytes become replacement characters. So does NUL, which PostgreSQL cannot store in a text. */
function decode(bytes: Buffer, encoding = 'utf-8'): string {
  let text: string;
  try {
    text = new TextDecoder(encoding.trim(), { ignoreBOM: true }).decode(bytes);
  } catch {
    text = bytes.toString(); // an encoding that only some iconv knows
  }
  return text.replaceAll('\0', '\uFFFD');
}
