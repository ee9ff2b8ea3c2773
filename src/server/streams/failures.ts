import { stripVTControlCharacters } from 'node:util';

/** Listed in docs/log-viewer.md. Each matches at the beginning of a line, or after a character that is not a letter. */
export const failurePatterns: readonly string[] = [
  'error:',
  '(?:[A-Z][A-Za-z]*)?Error:',
  'ERROR',
  String.raw`error\[E\d+\]`,
  String.raw`error [A-Z]+\d+:`,
  'fatal:',
  'FATAL',
  String.raw`FAIL\b`,
  'FAILED',
  'FAILURE',
  'failed:',
  'Failed ',
  String.raw`not ok \d`,
  'panic:',
  'panicked at',
  String.raw`Traceback \(most recent call last\)`,
  'Exception in thread',
  '(?:[A-Z][A-Za-z]*)?Exception:',
  'Unhandled ',
  'AssertionError',
  'Assertion failed',
  'assertion failed',
  'npm ERR!',
  'npm error',
  String.raw`\*\*\* \[`,
  'Segmentation fault',
  'core dumped',
  'undefined reference to',
  'command not found',
  'No such file or directory',
  'Permission denied',
  'out of memory',
  'Killed$',
  'exit status [1-9]',
  'exit code [1-9]',
  '✗ ',
  '✖ ',
  '✘ ',
];

export const failureExpression = `(?:^|[^A-Za-z0-9_])(?:${failurePatterns.join('|')})`;

const failure = new RegExp(failureExpression, 'u');
/** A longer line is only tried at its beginning. */
const longestTried = 2000;

export function reportsFailure(line: string): boolean {
  return failure.test(line.slice(0, longestTried));
}

/** Frames of a stack: JavaScript and Java, Python, Go. */
const frame = /^\s+at \S.*:\d+\)?$|^\s*File ".*", line \d+|^\t\S+\.go:\d+/u;

/** How the viewer marks a line. */
export function markOf(line: string): '' | 'failure' | 'stack' {
  const text = stripVTControlCharacters(line).trimEnd();
  return failure.test(text) ? 'failure' : frame.test(text) ? 'stack' : '';
}
