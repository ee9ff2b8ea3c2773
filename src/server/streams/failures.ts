/**
 * The texts by which common build tools report a failure; docs/log-viewer.md lists them for readers. Each is a regular
 * expression that matches at the beginning of a line, or after a character that is no letter.
 */
export const failurePatterns: readonly string[] = [
  'error:',
  'Error:',
  'ERROR',
  String.raw`error\[E\d+\]`,
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
  'Exception:',
  'Unhandled ',
  'AssertionError',
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
