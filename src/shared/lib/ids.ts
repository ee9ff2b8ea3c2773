/**
 * 64-bit identifiers: 41 bits of milliseconds, 10 bits of node, 12 bits of sequence.
 *
 * They are unique across servers because no two servers hold the same node number at one time (see db/node-lease.ts).
 * On one node they only grow: when the clock steps back, or when more than 4096 are needed in a millisecond, the
 * generator continues from the last time it used.
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
  /** No identifier of this node was ever made with a later time than this (ms since 1970). */
  usedUntil: number;
  /** Asked before each new millisecond; throws when the node number is no longer ours. */
  mayUse(time: number): void;
}

export interface NodeIds extends IdSource {
  /** The latest time that went into an identifier. */
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

/** When the identifier was made, in milliseconds since 1970. */
export function timeOfId(id: bigint): number {
  return Number(id >> (nodeBits + sequenceBits)) + epoch;
}

/** The smallest identifier that can be made at this moment or later. */
export function firstIdAt(ms: number): bigint {
  return BigInt(Math.max(0, ms - epoch)) << (nodeBits + sequenceBits);
}

/** Reads a decimal identifier; undefined when the text is not one. */
export function parseId(text: string): bigint | undefined {
  if (!/^[0-9]{1,19}$/.test(text)) return undefined;
  const id = BigInt(text);
  return id <= largestId ? id : undefined;
}

/** Whether a text is an identifier as we write it. */
export function isId(text: string): boolean {
  return !text.startsWith('0') && parseId(text) !== undefined;
}
