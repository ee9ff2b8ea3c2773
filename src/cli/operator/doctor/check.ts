/** One thing that a server or a runner needs of this machine. `cost` and `mend` are empty where it is ok. */
export interface Check {
  name: string;
  state: 'ok' | 'warning' | 'missing';
  found: string;
  /** What cannot be done, or is done worse. */
  cost: string;
  /** What somebody has to type, or to change. */
  mend: string;
}

export const ok = (name: string, found: string): Check => ({ name, state: 'ok', found, cost: '', mend: '' });

export const bad =
  (state: 'warning' | 'missing') =>
  (name: string, found: string, cost: string, mend: string): Check => ({ name, state, found, cost, mend });
export const warning = bad('warning');
export const missing = bad('missing');
