/**
 * The chunks of build logs that this server has just stored. Readers that follow a build here get them without another
 * query: the store has already told them that the log is longer. The bytes of a build's log never change, so a chunk that
 * is stored is right for good. Other servers, and readers that come later, read the store.
 */
export interface RecentChunks {
  /** Takes note of a chunk that is durable. */
  note(log: bigint, start: bigint, bytes: Uint8Array): void;
  /** The bytes of a range of a log, if the last chunk holds all of them. */
  find(log: bigint, from: bigint, to: bigint): Buffer | undefined;
}

/** One chunk of each of this many logs is kept, and none that is longer: together they stay below a megabyte. */
const mostLogs = 64;
const longest = 16 * 1024;

export function createRecentChunks(): RecentChunks {
  const chunks = new Map<bigint, { start: bigint; bytes: Uint8Array }>();
  return {
    note(log, start, bytes) {
      chunks.delete(log); // so that the one that was noted last comes last
      if (bytes.length > longest) return;
      chunks.set(log, { start, bytes: Buffer.from(bytes) }); // whoever has handed them over uses the memory again
      const [oldest] = chunks.keys();
      if (chunks.size > mostLogs && oldest !== undefined) chunks.delete(oldest);
    },
    find(log, from, to) {
      const chunk = chunks.get(log);
      if (!chunk || from < chunk.start || to > chunk.start + BigInt(chunk.bytes.length)) return undefined;
      const { buffer, byteOffset } = chunk.bytes;
      return Buffer.from(buffer, byteOffset + Number(from - chunk.start), Number(to - from));
    },
  };
}
