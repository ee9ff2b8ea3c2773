/** The public application that every server has: the command line, in which people sign in with `headrace login`. */
export const commandLineName = 'headrace-cli';

/** Its identifier in the store. Identifiers that the program makes are far larger. */
export const commandLineId = 100n;
