/** 64-bit integers keep all their digits. */
export function exactJson(value: unknown, indentation = 0): string {
  return JSON.stringify(value, withRaw, indentation);
}

function withRaw(_: string, item: unknown): unknown {
  return typeof item === 'bigint' ? rawJson(String(item)) : item;
}

/** JSON.rawJSON is in every engine we run on, but not yet in TypeScript's library. */
const rawJson = (JSON as unknown as { rawJSON: (this: void, text: string) => unknown }).rawJSON;

/** Whole numbers become bigint, other numbers become number. */
export function parseExactJson(text: string): unknown {
  return JSON.parse(text, exactNumbers as (key: string, value: unknown) => unknown);
}

function exactNumbers(_: string, value: unknown, { source = '' }: { source?: string }): unknown {
  return typeof value === 'number' && /^-?\d+$/.test(source) ? BigInt(source) : value;
}
