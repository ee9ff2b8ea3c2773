import type { Sealed } from './values.ts';

/** What the store needs for itself. */

export interface IdNodeRow {
  node: number;
  holder: string;
  leased_until: bigint;
  used_until: bigint;
}

export interface AppliedMigrationRow {
  name: string;
  applied_at: bigint;
}

/** One row, sealed so that a master key can be tried on it; see db/canary.ts. */
export interface MasterKeyCanaryRow {
  id: bigint;
  sealed: Sealed;
}
