import { firstVersion } from './0001-first-version.ts';
import { applyFile } from './tables.ts';

/** In the order of application. A released migration never changes; a new one follows it. */
export const migrations = [
  { name: '0001-first-version', apply: firstVersion },
  { name: '0002-headrace-0.2.0', apply: (trx, kind) => applyFile(trx, kind, '0002-headrace-0.2.0.sql') },
] as const satisfies { name: string; apply: typeof firstVersion }[];
