/**
 * What modules keep for as long as a transaction or an open database: made when it is first asked for, and gone with its
 * owner. A table in a module would be shared by everything in the process.
 */
export type Memo = Map<() => unknown, unknown>;

/** `make` is also the name under which it is kept. */
export function memoized<T>({ notes }: { readonly notes: Memo }, make: () => T): T {
  if (!notes.has(make)) notes.set(make, make());
  return notes.get(make) as T;
}
