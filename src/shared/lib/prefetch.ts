/** Work that starts before it is needed. Disposing of it cancels or releases it. */
export interface Prefetch<T> extends AsyncDisposable {
  readonly result: Promise<T>;
}

export function prefetch<T extends Disposable>(
  take: (signal: AbortSignal) => Promise<T>,
  signal: AbortSignal,
): Prefetch<T> {
  const ending = new AbortController();
  const result = take(AbortSignal.any([signal, ending.signal]));
  result.catch(() => {}); // the waiting caller gets the error
  return {
    result,
    async [Symbol.asyncDispose]() {
      ending.abort(new Error('it is no longer needed'));
      await result.then(
        (taken) => taken[Symbol.dispose](),
        () => {},
      );
    },
  };
}
