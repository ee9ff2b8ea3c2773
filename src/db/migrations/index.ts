import type { MigrationStep } from '../migrate.ts';
import { firstVersion } from './0001-first-version.ts';

/** In the order in which they are applied. A released migration never changes; a new one follows it. */
export const migrations: readonly MigrationStep[] = [{ name: '0001-first-version', apply: firstVersion }];
