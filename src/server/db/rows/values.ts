/** Sealed by lib/vault.ts; see `sealedColumns`. */
export type Sealed = string;

/** A blob that stays as long as the row refers to it; see `blobColumns`. */
export type BlobDigest = string;
