import type { CommitMetadata } from '../../protocol.ts';

/**
 * Reads a commit object as git stores it. git's own formatting would be shorter to use, but drops a name when
 * the date beside it is odd, and dates before 1970 altogether.
 */
export function readCommitObject(bytes: Buffer): CommitMetadata {
  const end = bytes.indexOf('\n\n');
  const headerBytes = end < 0 ? bytes : bytes.subarray(0, end);
  const messageBytes = end < 0 ? Buffer.alloc(0) : bytes.subarray(end + 2);
  const encoding = /^encoding (.+)$/m.exec(headerBytes.toString('latin1'))?.[1];
  const header = decode(headerBytes, encoding);
  const author = readIdentity(/^author (.*)$/m.exec(header)?.[1] ?? '');
  const committer = readIdentity(/^committer (.*)$/m.exec(header)?.[1] ?? '');
  return {
    message: withoutLastNewlines(decode(messageBytes, encoding)),
    authorName: author.name,
    authorEmail: author.email,
    authoredDate: author.date,
    committerName: committer.name,
    committerEmail: committer.email,
    committedDate: committer.date,
  };
}

/** Not by an expression: one that tries again at each newline takes hours for a message of nothing else. */
function withoutLastNewlines(text: string): string {
  let end = text.length;
  while (text[end - 1] === '\n') end -= 1;
  return text.slice(0, end);
}

/** `Name <email> seconds offset`, where every part may be missing or odd. */
function readIdentity(line: string): { name: string; email: string; date: string } {
  const parts = /^([^<]*)<([^>]*)>(?:.*?\s(-?\d+)(?:\s+([+-]\d+))?)?/.exec(line);
  return {
    name: (parts?.[1] ?? '').trim(),
    email: (parts?.[2] ?? '').trim(),
    date: formatDate(Number(parts?.[3] ?? 0), parts?.[4] ?? '+0000'),
  };
}

// A day to spare at either end for the offset: the year must keep its four digits.
const earliest = Date.parse('0001-01-02T00:00:00Z') / 1000;
const latest = Date.parse('9999-12-30T00:00:00Z') / 1000;

/** `2026-11-14T23:52:44+02:00`: the clock on the author's wall, and how far it was from UTC. */
export function formatDate(seconds: number, offset: string): string {
  const [, sign = '+', hours = '00', minutes = '00'] = /^([+-])(\d\d)(\d\d)$/.exec(offset) ?? [];
  const size = Number(hours) * 60 + Number(minutes);
  const usable = Number(minutes) < 60 && size <= 14 * 60; // further away there is no land
  const shift = usable ? (sign === '-' ? -size : size) : 0;
  const bounded = Math.min(Math.max(seconds, earliest), latest);
  const wall = new Date((bounded + shift * 60) * 1000).toISOString().slice(0, 19);
  return `${wall}${usable ? `${sign}${hours}:${minutes}` : '+00:00'}`;
}

/**
 * To UTF-8 from what the commit declares; bytes that fit nothing become replacement characters. So does a
 * NUL, which PostgreSQL cannot store in a text.
 */
function decode(bytes: Buffer, encoding = 'utf-8'): string {
  let text: string;
  try {
    text = new TextDecoder(encoding.trim(), { ignoreBOM: true }).decode(bytes);
  } catch {
    text = bytes.toString(); // a name that only some iconv knows
  }
  return text.replaceAll('\0', '\uFFFD');
}
