/** Per runner, in addition to its jobs. */
export const mostShells = 4;

/** Per runner in builds of one account, whoever opened them, so that other accounts have room. */
export const mostShellsOfAccount = 2;
