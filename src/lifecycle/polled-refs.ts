import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { longestListing, readListing, type Refs } from '../lib/ref-listings.ts';

/** The difference between two listings of a repository's refs, and which of the moved refs are built. */

/** A character of a name takes at most three bytes. */
const longestUnpacked = 3 * longestListing;

export function packListing(listing: string): Buffer {
  return zstdCompressSync(listing);
}

export function unpackListing(packed: Uint8Array): Refs {
  const listing = zstdDecompressSync(packed, { maxOutputLength: longestUnpacked }).toString();
  const refs = readListing(listing);
  if (!refs) throw new Error('what was seen at the last look cannot be read');
  return refs;
}

export interface MovedRef {
  ref: string;
  sha: string;
  /** The branch; empty for a tag. */
  branch: string;
  tag: string;
}

export interface Moves {
  /** New or moved refs: branches first, then the tags with the highest numbers. */
  moved: MovedRef[];
  deleted: number;
}

/**
 * The most builds that one poll asks for. A mirror that is filled with thousands of tags should not start thousands of
 * builds.
 */
export const mostBuilds = 20;

export function movesBetween(before: Refs, after: Refs): Moves {
  const moved = Array.from(after, ([ref, sha]) => moveOf(ref, sha)).filter(({ ref, sha }) => before.get(ref) !== sha);
  const byNumbers = new Intl.Collator('en', { numeric: true });
  moved.sort((one, other) => rank(one) - rank(other) || byNumbers.compare(other.tag, one.tag) || compare(one, other));
  const deleted = Array.from(before.keys()).filter((ref) => !after.has(ref)).length;
  return { moved, deleted };
}

function rank({ branch }: MovedRef): number {
  return branch === '' ? 1 : 0;
}

function compare({ ref: one }: MovedRef, { ref: other }: MovedRef): number {
  return one < other ? -1 : 1;
}

function moveOf(ref: string, sha: string): MovedRef {
  const branch = ref.startsWith('refs/heads/') ? ref.slice('refs/heads/'.length) : '';
  return { ref, sha, branch, tag: branch === '' ? ref.slice('refs/tags/'.length) : '' };
}

export function callIt({ branch, tag, sha }: MovedRef): string {
  return `${branch === '' ? `the tag ${tag}` : branch} (${sha.slice(0, 8)})`;
}
