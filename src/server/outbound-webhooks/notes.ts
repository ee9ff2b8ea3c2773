import { createHash } from 'node:crypto';
import { most } from '../../shared/domain/bounds.ts';
import { nameWithVariant } from '../../shared/domain/matrix.ts';
import type { Annotation } from '../../shared/records/build.ts';
import type { CheckRun } from '../forges/forge.ts';
import { asBlock } from './markdown.ts';

/** What the builds of a pull request found. Everything in `found` may be a stranger's text. */
export interface Notes {
  sha: string;
  /** The page of the request. */
  address: string;
  found: { suite: string; annotation: Annotation }[];
  /** Whether some builds were not read. */
  isCut: boolean;
}

export const notesMark = '[//]: # (headrace notes)';

/** The smallest limit of a forge for a comment is 32,768 characters. */
const longestBlock = 30_000;
const longestMessage = 500;

export function nameOf({ suite_name: suite, variant }: { suite_name: string; variant: string }): string {
  return nameWithVariant(suite, variant);
}

/** The service's line. */
function headline({ sha, found: { length: all }, isCut }: Notes): string {
  const count = `${isCut ? 'at least ' : ''}${all === 0 ? 'no' : all} ${all === 1 ? 'problem' : 'problems'}`;
  return `Headrace found ${count} at lines of files in commit ${sha.slice(0, 12)}.`;
}

function placeOf({ file, line, end_line: end }: Annotation): string {
  return `${inLine(file ?? '')}:${line}${end === null || end === line ? '' : `-${end}`}`;
}

const inLine = (text: string): string => text.replaceAll(/\s+/g, ' ');

/** Each line of a text is indented, so that none begins like a command of the forge. */
function linesOf({ suite, annotation }: Notes['found'][number]): string[] {
  const { level, title, message } = annotation;
  const text = message.length > longestMessage ? `${message.slice(0, longestMessage - 1).toWellFormed()}…` : message;
  const said = [...(title === null ? [] : [inLine(title)]), ...text.split(/\r\n?|\n/)].filter(
    (line) => line.trim() !== '',
  );
  return [`${suite}: ${level}: ${placeOf(annotation)}`, ...said.map((line) => `    ${line}`)].map(
    (line) => `  ${line}`,
  );
}

export function commentOf(notes: Notes): string {
  const lines: string[] = [];
  let length = 0;
  let shown = 0;
  for (const one of notes.found) {
    const own = linesOf(one);
    length += own.join('\n').length + 1;
    if (length > longestBlock) break;
    lines.push(...own);
    shown += 1;
  }
  const left = notes.found.length - shown;
  const more = left === 0 ? '' : ` ${left} more are on the pages of the builds.`;
  const head = `${headline(notes)}${more} [Build request](${notes.address})`;
  return [head, ...(lines.length === 0 ? [] : [asBlock(lines)]), notesMark].join('\n\n');
}

const levels = { error: 'failure', warning: 'warning', notice: 'notice' } as const;

export function checkRunOf(notes: Notes): CheckRun {
  const shown = notes.found.slice(0, most.checkAnnotations);
  const left = notes.found.length - shown.length;
  return {
    sha: notes.sha,
    address: notes.address,
    conclusion: notes.found.length === 0 ? 'success' : 'neutral',
    title: headline(notes),
    summary: left === 0 ? headline(notes) : `${headline(notes)} ${left} more are on the pages of the builds.`,
    annotations: shown.map(({ suite, annotation: { file, line, end_line: end, level, title, message } }) => ({
      path: inLine(file ?? ''),
      start_line: line ?? 1,
      end_line: end ?? line ?? 1,
      annotation_level: levels[level],
      title: `${suite}${title === null ? '' : `: ${inLine(title)}`}`.slice(0, 255).toWellFormed(),
      message: message === '' ? level : message,
    })),
  };
}

export const digestOf = (what: unknown): string => createHash('sha256').update(JSON.stringify(what)).digest('hex');
