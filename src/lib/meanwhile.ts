/** Work that was begun beside other work. Disposing of it calls it off, or lets go of what it has brought. */
export interface Meanwhile<T> extends AsyncDisposable {
  readonly result: Promise<T>;
}

export function meanwhile<T extends Disposable>(
  work: (signal: AbortSignal) => Promise<T>,
  signal: AbortSignal,
): Meanwhile<T> {
  const ending = new AbortController();
  const result = work(AbortSignal.any([signal, ending.signal]));
  result.catch(() => {}); // who waits for it gets the error
  return {
    result,
    async [Symbol.asyncDispose]() {
      ending.abort(new Error('it is not needed any more'));
      await result.then(
        (brought) => brought[Symbol.dispose](),
        () => {},
      );
    },
  };
}
