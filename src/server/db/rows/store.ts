import type { Sealed } from './values.ts';

/** The tables of the store itself. */

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

/** One sealed row on which a master key is tried; see db/canary.ts. */
export interface MasterKeyCanaryRow {
  id: bigint;
  sealed: Sealed;
}
