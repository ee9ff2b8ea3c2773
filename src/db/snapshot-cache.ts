/**
 * Keeps what was worked out from the store until something is committed to it, by whomever. So it is never stale,
 * and nobody has to remember to clear it.
 */
export interface SnapshotCache {
  get(name: string): unknown;
  /** `asOf` is what `asOf` said before the work began: had anything been committed since, it is not kept. */
  set(name: string, value: unknown, asOf: unknown): void;
  readonly asOf: unknown;
}
