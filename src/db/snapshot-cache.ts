/**
 * Caches values computed from the store until the next commit by any process. So the cache is never stale and never
 * needs to be cleared.
 */
export interface SnapshotCache {
  get(name: string): unknown;
  /** `asOf` is the cache's `asOf` from before the work began; the value is not kept if there was a commit since. */
  set(name: string, value: unknown, asOf: unknown): void;
  readonly asOf: unknown;
}
