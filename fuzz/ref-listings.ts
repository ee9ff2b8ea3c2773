import assert from 'node:assert/strict';
import * as fc from 'fast-check';
import { readListing, writeListing } from '../src/shared/domain/ref-listings.ts';
import { refsIn } from '../src/runner/git/list-refs.ts';
import { mutated, oddBytes } from './mutations.ts';
import { pure } from './target.ts';

const sha = fc.constantFrom('0'.repeat(40), '7'.repeat(40), 'a'.repeat(40), 'b'.repeat(64), '');
const name = fc.oneof(
  fc.constantFrom('refs/heads/main', 'refs/tags/v1', 'refs/tags/v1^{}', 'refs/pull/1/head', 'HEAD', 'refs/heads/ü', ''),
  oddBytes.map((bytes) => `refs/heads/${bytes.toString('latin1')}`),
);
const line = fc.tuple(sha, fc.constantFrom('\t', '\t', ' '), name).map((parts) => `${parts.join('')}\n`);
const printed = mutated(fc.array(line, { maxLength: 12 }).map((lines) => Buffer.from(lines.join(''))));

/** Whatever a host has git print, what is made of it can be told to a server. */
export const refListings = pure(
  'ref-listings',
  500,
  fc.property(printed, (bytes) => {
    const refs = refsIn(bytes.toString());
    if (typeof refs === 'string') assert.match(refs, /^it/);
    else assert.deepEqual(readListing(writeListing(refs)), new Map(refs));
  }),
);
