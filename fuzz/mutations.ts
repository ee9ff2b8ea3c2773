import * as fc from 'fast-check';

export interface Change {
  kind: 'flip' | 'remove' | 'repeat' | 'insert' | 'number' | 'cut';
  at: number;
  length: number;
  bytes: Uint8Array;
  number: number;
}

const change: fc.Arbitrary<Change> = fc.record({
  kind: fc.constantFrom('flip', 'remove', 'repeat', 'insert', 'number', 'cut'),
  at: fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }),
  length: fc.nat(64),
  bytes: fc.uint8Array({ maxLength: 16 }),
  number: fc.constantFrom(0, 1, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff),
});

/** What happens to good bytes on a bad way: flipped, cut out, put in twice, overwritten, cut short. */
export const damage: fc.Arbitrary<Change[]> = fc.array(change, { maxLength: 4 });

export function damaged(bytes: Buffer, changes: readonly Change[]): Buffer {
  return changes.reduce(apply, bytes);
}

export function mutated(good: fc.Arbitrary<Buffer>): fc.Arbitrary<Buffer> {
  return fc.tuple(good, damage).map(([bytes, changes]) => damaged(bytes, changes));
}

function apply(bytes: Buffer, { kind, at: part, length, bytes: fresh, number }: Change): Buffer {
  const at = Math.floor(part * bytes.length);
  const [before, after] = [bytes.subarray(0, at), bytes.subarray(at)];
  switch (kind) {
    case 'flip': {
      const copy = Buffer.from(bytes);
      if (copy.length > 0) copy[at] = (copy[at] ?? 0) ^ (1 << (length & 7));
      return copy;
    }
    case 'remove':
      return Buffer.concat([before, after.subarray(length)]);
    case 'repeat':
      return Buffer.concat([before, after.subarray(0, length), after]);
    case 'insert':
      return Buffer.concat([before, fresh, after]);
    case 'number': {
      const copy = Buffer.from(bytes);
      if (at + 4 <= copy.length) copy.writeUInt32LE(number, at);
      return copy;
    }
    case 'cut':
      return Buffer.from(before);
    default:
      return kind satisfies never;
  }
}

/** Bytes with much in them that means something: line ends, control characters, broken and whole UTF-8. */
export const oddBytes: fc.Arbitrary<Buffer> = fc
  .array(
    fc.oneof(
      fc.uint8Array({ maxLength: 12 }).map((bytes) => Buffer.from(bytes)),
      fc.string({ unit: 'binary', maxLength: 8 }).map((text) => Buffer.from(text)),
      fc
        .constantFrom('\n', '\r\n', '\0', '\x1b[2J', '\x1b]0;title\x07', '\u2028', '€', '😀', '\ufeff')
        .map((text) => Buffer.from(text)),
      fc
        .constantFrom(
          [0xe2],
          [0xe2, 0x82],
          [0xf0, 0x9f, 0x98],
          [0x80],
          [0xc0, 0x80],
          [0xed, 0xa0, 0x80],
          [0xf5],
          [0xff],
        )
        .map((bytes) => Buffer.from(bytes)),
    ),
    { maxLength: 12 },
  )
  .map((parts) => Buffer.concat(parts));
