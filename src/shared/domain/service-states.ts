/** The states of the services of a build. */
export const serviceStates = ['starting', 'preparing', 'ready', 'stopped', 'failed'] as const;
