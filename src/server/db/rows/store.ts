import type { Sealed } from './values.ts';

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

export interface MasterKeyCanaryRow {
  id: bigint;
  sealed: Sealed;
}
