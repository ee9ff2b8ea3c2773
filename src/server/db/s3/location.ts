export interface S3Location {
  bucket: string;
  /** Empty, or ends with a slash. */
  prefix: string;
  /** Unset for AWS itself. */
  endpoint?: string | undefined;
  region?: string | undefined;
  /** The bucket is in the path of an address, not in its host name. */
  pathStyle: boolean;
  browsers?: boolean;
}

/** `aa/DIGEST` as in the folder, and two temporary kinds. */
export interface Keys {
  of(digest: string): string;
  /** For content stored before its digest is known. */
  incoming(name: string): string;
  /** For a copy of a blob being removed; see collect.ts. */
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
