import { RefusedError, type LogSource } from './log-source.ts';

/** A backward search reads this many lines first, then four times as many. */
const firstStep = 2000;

export interface Finder {
  /** Wraps around at the end. Undefined if the log has no match. */
  find(from: number, isForward: boolean, total: number): Promise<number | undefined>;
}

export function finder(source: LogSource, wanted: Record<string, string>, signal: AbortSignal): Finder {
  const first = async (from: number, to: number): Promise<number | undefined> => {
    for (let at: number | null = from; at !== null && at <= to;) {
      const { matches, next } = await source.matches({ ...wanted, from: at, to, limit: 1 }, signal);
      if (matches[0]) return matches[0].number;
      at = next;
    }
    return undefined;
  };
  const last = async (from: number, to: number): Promise<number | undefined> => {
    for (let [end, step] = [to, firstStep]; end >= from; step *= 4) {
      const start = Math.max(from, end - step + 1);
      let found: number | undefined;
      for (let at: number | null = start; at !== null && at <= end;) {
        const { matches, next } = await source.matches({ ...wanted, from: at, to: end, limit: 5000 }, signal);
        found = matches.at(-1)?.number ?? found;
        at = next;
      }
      if (found !== undefined) return found;
      end = start - 1;
    }
    return undefined;
  };
  return {
    async find(from, isForward, total) {
      if (isForward) return (await first(from + 1, total)) ?? first(1, from);
      return (await last(1, from - 1)) ?? last(from, total);
    },
  };
}

const mostCounted = 5000;

export async function countMatches(source: LogSource, q: string, signal: AbortSignal): Promise<string> {
  let count = 0;
  for (let at: number | null = 1; at !== null;) {
    const { matches, next } = await source.matches({ q, from: at, limit: mostCounted }, signal);
    count += matches.length;
    if (count >= mostCounted && next !== null) return `more than ${mostCounted.toLocaleString('en')} lines`;
    at = next;
  }
  return count === 1 ? '1 line' : `${count.toLocaleString('en')} lines`;
}

export function isRefused(error: unknown): boolean {
  return error instanceof RefusedError;
}
