import type { JobHandler } from './job-handler.ts';

export const checkInputs: JobHandler = {
  order: async () => undefined,
  outcomes: ['inputs', 'cancelled', 'unfetchable', 'unrunnable'],
  settle: async () => {},
  lose: async () => ({ retry: false }),
};
