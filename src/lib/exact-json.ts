/** JSON in which 64-bit integers keep all their digits. */
export function exactJson(value: unknown): string {
  return JSON.stringify(value, (_, item: unknown) => (typeof item === 'bigint' ? rawJson(String(item)) : item));
}

/** JSON.rawJSON is in every engine we run on, but not yet in TypeScript's library. */
const rawJson = (JSON as unknown as { rawJSON: (this: void, text: string) => unknown }).rawJSON;
