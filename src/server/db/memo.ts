/** Caches per transaction or open database. A module-level table would span the whole process. */
export type Memo = Map<() => unknown, unknown>;

/** `make` is also the key. */
export function memoized<T>({ notes }: { readonly notes: Memo }, make: () => T): T {
  if (!notes.has(make)) notes.set(make, make());
  return notes.get(make) as T;
}
