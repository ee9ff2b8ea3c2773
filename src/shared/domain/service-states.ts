export const serviceStates = ['starting', 'preparing', 'ready', 'stopped', 'failed'] as const;
