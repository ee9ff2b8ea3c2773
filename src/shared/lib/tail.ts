export interface Tail {
  add(chunk: Uint8Array): void;
  bytes(): Buffer;
}

export function keepTail(limit: number): Tail {
  let chunks: Uint8Array[] = [];
  let size = 0;
  const bytes = (): Buffer => Buffer.concat(chunks).subarray(-limit);
  return {
    add: (chunk) => {
      // A copy, because a slice would keep the whole chunk in memory.
      const kept = Buffer.from(chunk.subarray(Math.max(0, chunk.length - limit)));
      chunks.push(kept);
      size += kept.length;
      // Concatenated rarely, so that many small chunks cost no more than their bytes.
      if (size <= 2 * limit && chunks.length <= 1024) return;
      chunks = [bytes()];
      size = chunks[0]?.length ?? 0;
    },
    bytes,
  };
}
