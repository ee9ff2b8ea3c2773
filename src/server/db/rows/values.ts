/** A value sealed by lib/vault.ts; see `sealedColumns`. */
export type Sealed = string;

/** The digest of a blob that stays as long as the row refers to it; see `blobColumns`. */
export type BlobDigest = string;
