export const stepStates = ['waiting', 'running', 'passed', 'failed', 'skipped', 'cancelled'] as const;
