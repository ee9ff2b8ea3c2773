/**
 * How the sentence begins that says why builds cannot be isolated on a machine, and what to do. Everybody whose builds wait
 * may read it, so it is made of fixed words and names nothing of the machine but its kernel settings and devices.
 */
const beginning = 'builds cannot be isolated: ';

export class NotIsolatedError extends Error {
  override name = 'NotIsolatedError';

  constructor(why: string, cause?: unknown) {
    super(`${beginning}${why}`, { cause });
  }
}

/** Whether this is such a sentence: the runner and its server tell each other in texts. */
export function isAboutIsolation(text: string): boolean {
  return text.startsWith(beginning);
}

/** The command that tries Headrace on a machine without isolation. */
export const withoutIsolation = 'HEADRACE_SANDBOX=off npm start';
