/** A need of a server or a runner. `cost` and `mend` are empty if it is ok. */
export interface Check {
  name: string;
  state: 'ok' | 'warning' | 'missing';
  found: string;
  /** The effect of a missing or poor state. */
  cost: string;
  /** A command to type, or something to change. */
  mend: string;
}

export const ok = (name: string, found: string): Check => ({ name, state: 'ok', found, cost: '', mend: '' });

export const bad =
  (state: 'warning' | 'missing') =>
  (name: string, found: string, cost: string, mend: string): Check => ({ name, state, found, cost, mend });
export const warning = bad('warning');
export const missing = bad('missing');
