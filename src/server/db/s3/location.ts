/** Where blobs are in S3, as blob_url says. */
export interface S3Location {
  bucket: string;
  /** Empty, or ends with a slash. */
  prefix: string;
  /** Of a store that is not AWS's own. */
  endpoint?: string | undefined;
  region?: string | undefined;
  /** The bucket stands in the path of an address, not in the name of its host. */
  pathStyle: boolean;
  /** Whether browsers reach it too. */
  browsers?: boolean;
}

/** The keys of the objects: `aa/DIGEST` as in the folder, and two kinds that come and go. */
export interface Keys {
  of(digest: string): string;
  /** What is stored before its digest is known. */
  incoming(name: string): string;
  /** A copy of what is being removed; see collect.ts. */
  aside(digest: string, name: string): string;
}

export function keysOf({ prefix }: S3Location): Keys {
  return {
    of: (digest) => `${prefix}${checked(digest).slice(0, 2)}/${digest}`,
    incoming: (name) => `${prefix}incoming/${name}`,
    aside: (digest, name) => `${prefix}removed/${checked(digest)}/${name}`,
  };
}

function checked(digest: string): string {
  if (!/^[0-9a-f]{64}$/.test(digest)) throw new Error('a blob is named by a SHA-256');
  return digest;
}
