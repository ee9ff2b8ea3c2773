/** Passes chunks to a reader one by one, without a buffer. The writer waits for the reader. */
export interface HandOver {
  /** Settles when the reader requests the next chunk. */
  give: (chunk: Buffer) => Promise<void>;
  end: () => void;
  /** The reader is done: further chunks are dropped. */
  discard: () => void;
  chunks: () => AsyncGenerator<Buffer>;
}

export function handOver(): HandOver {
  let given: Buffer | undefined;
  let taken = Promise.withResolvers<void>();
  let news = Promise.withResolvers<void>();
  let isOver = false;
  let isDiscarded = false;
  const notify = (): void => {
    news.resolve();
    news = Promise.withResolvers<void>();
  };
  return {
    give: async (chunk) => {
      if (isDiscarded) return;
      given = chunk;
      taken = Promise.withResolvers<void>();
      notify();
      await taken.promise;
    },
    end: () => {
      isOver = true;
      notify();
    },
    discard: () => {
      isDiscarded = true;
      taken.resolve();
    },
    async *chunks() {
      for (;;) {
        if (given) {
          const chunk = given;
          given = undefined;
          yield chunk;
          taken.resolve();
        } else if (isOver) return;
        else await news.promise;
      }
    },
  };
}
