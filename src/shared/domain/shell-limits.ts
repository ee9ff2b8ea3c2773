/** A runner runs at most this many shells at a time, beside its jobs. */
export const mostShells = 4;

/**
 * How many of a runner's shells may be in builds of one account, whoever opened them, so that there is room for other
 * accounts.
 */
export const mostShellsOfAccount = 2;
