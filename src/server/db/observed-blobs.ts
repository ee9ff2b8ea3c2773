import type { Blobs } from './blobs.ts';

export type BlobObserver = Record<'put' | 'open' | 'read' | 'remove', (milliseconds: number) => void>;

/** The observer gets the duration of each operation, also if it fails. */
export function observeBlobs(blobs: Blobs, observer: BlobObserver): Blobs {
  const timed = async <T>(operation: keyof BlobObserver, work: () => Promise<T>): Promise<T> => {
    const beganAt = performance.now();
    try {
      return await work();
    } finally {
      observer[operation](performance.now() - beganAt);
    }
  };
  return {
    put: (content, expected) => timed('put', () => blobs.put(content, expected)),
    async open(digest) {
      const blob = await timed('open', () => blobs.open(digest));
      return {
        size: blob.size,
        read: (offset, length) => timed('read', () => blob.read(offset, length)),
        ...(blob.address && { address: async (download) => blob.address?.(download) }),
        [Symbol.asyncDispose]: () => blob[Symbol.asyncDispose](),
      };
    },
    collect: (age, referredTo) => blobs.collect(age, referredTo),
    remove: (digest, isWanted, age) => timed('remove', () => blobs.remove(digest, isWanted, age)),
    list: () => blobs.list(),
    ...(blobs.room && { room: async () => (await blobs.room?.()) ?? Infinity }),
    prove: () => blobs.prove(),
    close: () => blobs.close(),
  };
}
