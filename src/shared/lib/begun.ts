/** Reads the first piece before the response begins, so that an error can still be sent. */
export async function begun(pieces: AsyncGenerator<Buffer>): Promise<AsyncGenerator<Buffer>> {
  const first = await pieces.next();
  return (async function* all() {
    try {
      if (first.done !== true) yield first.value;
      yield* pieces;
    } finally {
      await pieces.return(undefined);
    }
  })();
}

export async function* nothing(): AsyncGenerator<Buffer> {}
