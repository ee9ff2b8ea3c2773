/** The API's form: ISO 8601 in UTC, whole seconds, with an explicit offset. */
export function timestamp(ms: bigint | number): string {
  return `${new Date(Number(ms)).toISOString().slice(0, 19)}+00:00`;
}

export function timestampOrNull(ms: bigint | null): string | null {
  return ms === null ? null : timestamp(ms);
}
