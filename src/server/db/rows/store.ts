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

/** A key that signs tokens of builds. Each one replaces the one before it. */
export interface SigningKeyRow {
  id: bigint;
  /** A JWK, as published. */
  public_key: string;
  private_key: Sealed;
  signs_from: bigint;
}

export interface MasterKeyCanaryRow {
  id: bigint;
  sealed: Sealed;
}
