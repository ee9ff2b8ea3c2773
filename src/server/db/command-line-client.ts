/** The public application of every server: `headrace login` signs in with it. */
export const commandLineName = 'headrace-cli';

/** Its id. Generated ids are far larger. */
export const commandLineId = 100n;
