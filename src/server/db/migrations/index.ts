import { firstVersion } from './0001-first-version.ts';

/** In the order of application. A released migration never changes; a new one follows it. */
export const migrations = [{ name: '0001-first-version', apply: firstVersion }] as const;
