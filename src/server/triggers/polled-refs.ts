import { zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { bytes } from '../../shared/domain/bounds.ts';
import { digestOf, readListing, type Refs } from '../../shared/domain/ref-listings.ts';
import { madeByPush } from '../lifecycle/request-changes.ts';

export interface Listings {
  before: Uint8Array | undefined;
  listing: string;
}

export interface Compared {
  size: number;
  /** Undefined at the first poll. */
  moves: Moves | undefined;
  row: { digest: string; refs: Uint8Array };
}

/** Undefined if a listing has a wrong form. Very many refs take a good part of a second. */
export function compareListings({ before, listing }: Listings): Compared | undefined {
  const refs = readListing(listing);
  return (
    refs && {
      size: refs.size,
      moves: before && movesBetween(unpackListing(before), refs),
      row: { digest: digestOf(listing), refs: zstdCompressSync(listing) },
    }
  );
}

/** Listings up to this length are compared in a few milliseconds. */
const short = 64 * 1024;

export function isQuick({ before, listing }: Listings): boolean {
  if (!before || listing.length > short) return listing.length <= short;
  try {
    return zstdDecompressSync(before, { maxOutputLength: short }).length <= short;
  } catch {
    return false;
  }
}

function unpackListing(packed: Uint8Array): Refs {
  const listing = zstdDecompressSync(packed, { maxOutputLength: bytes.refListing }).toString();
  const refs = readListing(listing);
  if (!refs) throw new Error('the result of the last poll cannot be read');
  return refs;
}

export interface MovedRef {
  ref: string;
  sha: string;
  /** `none` for a new ref. */
  before: string;
  branch: string;
  tag: string;
}

export interface Moves {
  /** New or moved refs to build: branches first, then the tags with the highest numbers. */
  wanted: MovedRef[];
  moved: number;
  deleted: number;
}

/** Per poll: a mirror filled with thousands of tags should not start thousands of builds. */
export const mostBuilds = 20;

function movesBetween(before: Refs, after: Refs): Moves {
  const moved = Array.from(after, ([ref, sha]) => moveOf(ref, sha, before.get(ref) ?? madeByPush)).filter(
    ({ sha, before: was }) => was !== sha,
  );
  const byNumbers = new Intl.Collator('en', { numeric: true });
  moved.sort((one, other) => rank(one) - rank(other) || byNumbers.compare(other.tag, one.tag) || compare(one, other));
  const deleted = Array.from(before.keys()).filter((ref) => !after.has(ref)).length;
  return { wanted: moved.slice(0, mostBuilds), moved: moved.length, deleted };
}

function rank({ branch }: MovedRef): number {
  return branch === '' ? 1 : 0;
}

function compare({ ref: one }: MovedRef, { ref: other }: MovedRef): number {
  return one < other ? -1 : 1;
}

function moveOf(ref: string, sha: string, before: string): MovedRef {
  const branch = ref.startsWith('refs/heads/') ? ref.slice('refs/heads/'.length) : '';
  return { ref, sha, before, branch, tag: branch === '' ? ref.slice('refs/tags/'.length) : '' };
}

export function refLabel({ branch, tag, sha }: MovedRef): string {
  return `${branch === '' ? `the tag ${tag}` : branch} (${sha.slice(0, 8)})`;
}
