/** A runner runs at most this many shells at a time, beside its jobs. */
export const mostShells = 4;

/**
 * Of the shells that a runner has open, so many may be in builds of one account, whoever opened them: others find room
 * beside it.
 */
export const mostShellsOfAccount = 2;
