import { stripVTControlCharacters } from 'node:util';
import { longest, most } from '../../shared/domain/bounds.ts';
import { cutBytes } from '../../shared/lib/cut-bytes.ts';
import type { Database, Queries } from '../db/open.ts';
import { lineIndex, type LineIndex } from './line-index.ts';
import { linesMatching } from './outline.ts';
import type { SearchParts } from './search.ts';

/* A log may report problems at lines of files. The lines are found with the outline, and stored with it. */

export const annotationLevels = ['error', 'warning', 'notice'] as const;
export type AnnotationLevel = (typeof annotationLevels)[number];

export interface LogAnnotation {
  level: AnnotationLevel;
  file: string;
  line: number;
  endLine: number | null;
  title: string | null;
  message: string;
  logLine: number;
}

export interface LogAnnotations {
  annotations: LogAnnotation[];
  /** Whether the log has more than are stored. */
  hasMore: boolean;
}

const command = '^::(?:error|warning|notice) ';
/** A file without a colon, as the messages of compilers have it. */
const compilerMessage = String.raw`^[^:\s][^:]*:\d+(?::\d+)?: (?:fatal )?error: `;

interface Wanted {
  account: bigint;
  milliseconds: number;
  /** Also the messages of compilers. */
  hasCompilers: boolean;
}

export async function findAnnotations(parts: SearchParts, index: LineIndex, wanted: Wanted): Promise<LogAnnotations> {
  const expression = wanted.hasCompilers ? `${command}|${compilerMessage}` : command;
  const { found, to } = await linesMatching(parts, index, { ...wanted, expression, most: most.annotations + 1 });
  const annotations = found.flatMap(({ number, text }) => annotationIn(text, number) ?? []);
  return {
    annotations: annotations.slice(0, most.annotations),
    hasMore: found.length > most.annotations || to < index.total,
  };
}

export function annotationIn(line: string, logLine: number): LogAnnotation | undefined {
  const text = stripVTControlCharacters(line).trimEnd();
  const [, level, given = '', message = ''] = /^::(error|warning|notice) (.*?)::(.*)$/su.exec(text) ?? [];
  if (level !== undefined) return commanded(level as AnnotationLevel, given, { message, logLine });
  const [, file, number = '', said = ''] = /^([^:\s][^:]*):(\d+)(?::\d+)?: (?:fatal )?error: (.*)$/su.exec(text) ?? [];
  const at = lineNumber(number);
  // Otherwise a time of day would be a file and a line.
  if (file === undefined || at === null || !/\p{L}/u.test(file)) return undefined;
  return {
    level: 'error',
    file: ofLength(file, longest.path),
    line: at,
    endLine: null,
    title: null,
    message: cleanText(said),
    logLine,
  };
}

function commanded(
  level: AnnotationLevel,
  given: string,
  { message, logLine }: { message: string; logLine: number },
): LogAnnotation | undefined {
  const properties = new Map(
    given.split(',').map((one): [string, string] => {
      const [name = '', value = ''] = one.split(/=(.*)/su, 2);
      return [name.trim(), unescaped(value.trim())];
    }),
  );
  const [file, line, end] = [
    properties.get('file') ?? '',
    properties.get('line') ?? '',
    properties.get('endLine') ?? '',
  ];
  const [at, to] = [lineNumber(line), lineNumber(end)];
  if (file === '' || at === null) return undefined;
  const title = properties.get('title') ?? '';
  return {
    level,
    file: ofLength(file, longest.path),
    line: at,
    endLine: to !== null && to >= at ? to : null,
    title: title === '' ? null : ofLength(title, longest.name),
    message: cleanText(unescaped(message)),
    logLine,
  };
}

function lineNumber(text: string): number | null {
  return /^[1-9]\d{0,8}$/.test(text) ? Number(text) : null;
}

/** The escapes of GitHub's commands. */
const escapes: Readonly<Record<string, string>> = { '%25': '%', '%0D': '\r', '%0A': '\n', '%3A': ':', '%2C': ',' };

function unescaped(text: string): string {
  return text.replaceAll(/%(?:25|0[DA]|3A|2C)/gi, (escape) => escapes[escape.toUpperCase()] ?? escape);
}

/** Control characters, and characters that hide text or change its direction. */
const acting = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

function ofLength(text: string, length: number): string {
  return cutBytes(Buffer.from(text.replaceAll(acting, '\ufffd')), length);
}

export function cleanText(text: string): string {
  const lines = text
    .replaceAll(/\r\n?/g, '\n')
    .replaceAll(acting, (one) => (one === '\n' || one === '\t' ? one : '\ufffd'));
  return cutBytes(Buffer.from(lines.trim()), longest.annotation);
}

export async function storedAnnotations(db: Queries, id: bigint): Promise<LogAnnotations | undefined> {
  const indexes = db.selectFrom('log_indexes').select('annotations').where('log_id', '=', id);
  const stored = (await indexes.executeTakeFirst())?.annotations ?? '';
  return stored === '' ? undefined : (JSON.parse(stored) as LogAnnotations);
}

/** More than any log needs. */
const longestSearchMs = 60_000;

/** For a packed log. Safe to run twice. */
export async function storeAnnotations(
  parts: Omit<SearchParts, 'db'> & { db: Database },
  id: bigint,
  hasCompilers: boolean,
): Promise<void> {
  const { db } = parts;
  const index = await lineIndex({ ...parts, db: db.read }, id);
  if (!index || index.log.blob === null) return;
  const wanted = { account: 0n, milliseconds: longestSearchMs, hasCompilers };
  const found = await findAnnotations({ ...parts, db: db.read }, index, wanted);
  // If the log was restarted in between, it has no index now.
  await db.transaction((trx) =>
    trx
      .updateTable('log_indexes')
      .set({ annotations: JSON.stringify(found) })
      .where('log_id', '=', id)
      .execute(),
  );
}
