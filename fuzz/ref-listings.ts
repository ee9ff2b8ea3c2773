import assert from 'node:assert/strict';
import * as fc from 'fast-check';
import { readListing, writeListing } from '../src/lib/ref-listings.ts';
import { DeclinedError, RefReader, UnreadableError } from '../src/runner/git/ref-reader.ts';
import { mutated, oddBytes } from './mutations.ts';
import { pure } from './target.ts';

const sha = fc.constantFrom('0', '7', 'a').map((digit) => digit.repeat(40));
const name = fc.oneof(
  fc.constantFrom('refs/heads/main', 'refs/tags/v1', 'refs/tags/v1^{}', 'refs/pull/1/head', 'HEAD', 'refs/heads/ü', ''),
  oddBytes.map((bytes) => `refs/heads/${bytes.toString('latin1')}`),
);
const more = fc.constantFrom(
  '',
  '\n',
  '\0multi_ack object-format=sha1',
  ' peeled:' + '8'.repeat(40),
  ' peeled:x',
  ' symref-target:x',
);
const line = fc.tuple(sha, name, more).map((parts) => `${parts[0]} ${parts[1]}${parts[2]}`);
const packet = fc
  .oneof(
    line,
    fc.constantFrom(
      'version 1\n',
      'version 2\n',
      'agent=git/2',
      'object-format=sha256',
      'ERR no',
      `shallow ${'1'.repeat(40)}`,
    ),
  )
  .map((text) => Buffer.from(text))
  .map((bytes) => Buffer.concat([Buffer.from((bytes.length + 4).toString(16).padStart(4, '0')), bytes]));
const end = fc.constantFrom('0000', '0001', '0002', '0003', '0004', 'ffff').map((text) => Buffer.from(text));
const said = mutated(
  fc.array(fc.oneof(packet, packet, packet, end), { maxLength: 12 }).map((all) => Buffer.concat(all)),
);

/** What is read does not depend on how it was cut, can be told to a server, and what cannot be read is said to be so. */
export const refListings = pure(
  'ref-listings',
  500,
  fc.property(said, fc.array(fc.nat(50), { maxLength: 20 }), (bytes, cuts) => {
    const read = (sizes: readonly number[]): string => {
      const reader = new RefReader();
      let answer = '';
      try {
        let at = 0;
        for (const size of [...sizes, bytes.length]) answer += reader.take(bytes.subarray(at, (at += size)));
      } catch (error) {
        assert.ok(error instanceof UnreadableError || error instanceof DeclinedError, String(error));
        return `refused: ${error.message}`;
      }
      const listing = writeListing(reader.refs);
      assert.deepEqual(readListing(listing), new Map(reader.refs));
      return `${answer} ${reader.isDone} ${listing}`;
    };
    assert.equal(read(cuts), read([]));
  }),
);
