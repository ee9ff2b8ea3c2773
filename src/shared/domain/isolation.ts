/** Every user with a waiting build may read these. So they name only kernel settings and devices, in fixed words. */
const beginning = 'builds cannot be isolated: ';

export class NotIsolatedError extends Error {
  override name = 'NotIsolatedError';

  constructor(why: string, cause?: unknown) {
    super(`${beginning}${why}`, { cause });
  }
}

/** Runner and server exchange texts, so the beginning marks such a sentence. */
export function isAboutIsolation(text: string): boolean {
  return text.startsWith(beginning);
}

/** The command that tries Headrace on a machine without isolation. */
export const withoutIsolation = 'HEADRACE_SANDBOX=off npm start';
