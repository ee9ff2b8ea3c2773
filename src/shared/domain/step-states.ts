/** The states of the steps of a build. */
export const stepStates = ['waiting', 'running', 'passed', 'failed', 'skipped', 'cancelled'] as const;
