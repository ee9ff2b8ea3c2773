/** A set of hashes other than 0 in memory that can be handed to another thread. It has one hash in two slots at most. */
export type HashSet = Uint32Array<ArrayBuffer>;

export function emptySet(most: number): HashSet {
  let slots = 64;
  while (slots < 2 * most) slots *= 2;
  return new Uint32Array(slots);
}

export function has(set: HashSet, hash: number): boolean {
  const last = set.length - 1;
  for (let at = hash & last; set[at] !== 0; at = (at + 1) & last) if (set[at] === hash) return true;
  return false;
}

/** False if the set has it already. */
export function add(set: HashSet, hash: number): boolean {
  const last = set.length - 1;
  let at = hash & last;
  for (; set[at] !== 0; at = (at + 1) & last) if (set[at] === hash) return false;
  set[at] = hash;
  return true;
}

export function packSet(set: HashSet): Buffer {
  const hashes = set.filter((hash) => hash !== 0);
  return Buffer.from(hashes.buffer);
}

/** A copy, in memory of its own. */
export function unpackHashes(packed: Uint8Array): HashSet {
  const hashes = new Uint32Array(packed.length >>> 2);
  new Uint8Array(hashes.buffer).set(packed.subarray(0, hashes.length * 4));
  return hashes;
}
