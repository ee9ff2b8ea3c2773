/**
 * 64-bit identifiers: 41 bits of milliseconds, 10 bits of node, 12 bits of sequence.
 *
 * No two servers hold the same node number at once (see db/node-lease.ts), so they are unique. On one node they only
 * grow: if the clock steps back, or a millisecond needs more than 4096, the last time continues.
 */

/** 2020-01-01T00:00:00Z. Moving it would make new identifiers collide with old ones. */
const epoch = 1_577_836_800_000;
const nodeBits = 10n;
const sequenceBits = 12n;
const lastSequence = 4095;

export const nodeCount = 1024;
export const largestId = 2n ** 63n - 1n;

export interface IdSource {
  next(): bigint;
}

export interface NodeTerms {
  node: number;
  /** No identifier of this node has a later time (ms since 1970). */
  usedUntil: number;
  /** Called before each new millisecond. Throws if the node number is no longer ours. */
  mayUse(time: number): void;
}

export interface NodeIds extends IdSource {
  /** The latest time in an identifier. */
  lastUsed(): number;
}

export function createIds(terms: NodeTerms, now: () => number): NodeIds {
  const node = BigInt(terms.node) << sequenceBits;
  let time = terms.usedUntil;
  let sequence = lastSequence;
  return {
    lastUsed: () => time,
    next() {
      const clock = now();
      if (clock > time) {
        terms.mayUse(clock);
        time = clock;
        sequence = 0;
      } else if (sequence < lastSequence) {
        terms.mayUse(time);
        sequence += 1;
      } else {
        terms.mayUse(time + 1);
        time += 1;
        sequence = 0;
      }
      return (BigInt(time - epoch) << (nodeBits + sequenceBits)) | node | BigInt(sequence);
    },
  };
}

/** In milliseconds since 1970. */
export function timeOfId(id: bigint): number {
  return Number(id >> (nodeBits + sequenceBits)) + epoch;
}

/** The smallest identifier that can be made at this moment or later. */
export function firstIdAt(ms: number): bigint {
  return BigInt(Math.max(0, ms - epoch)) << (nodeBits + sequenceBits);
}

export function parseId(text: string): bigint | undefined {
  if (!/^[0-9]{1,19}$/.test(text)) return undefined;
  const id = BigInt(text);
  return id <= largestId ? id : undefined;
}

/** Only in the form that we write. */
export function isId(text: string): boolean {
  return !text.startsWith('0') && parseId(text) !== undefined;
}
