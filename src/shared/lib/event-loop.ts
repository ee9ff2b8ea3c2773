import { setImmediate as nextTurn } from 'node:timers/promises';

const longestMs = 10;

/** Code that waits only for SQLite stays in one turn of the event loop. Undefined if it is too early. */
export function createYield(): () => Promise<void> | undefined {
  let beganAt: number | undefined;
  return () => {
    const now = performance.now();
    if (beganAt === undefined) {
      beganAt = now;
      setImmediate(() => (beganAt = undefined));
    }
    return now - beganAt < longestMs ? undefined : nextTurn();
  };
}

/** Like `map`, with turns for other work in between. */
export async function mapYielding<Item, Result>(
  items: readonly Item[],
  map: (item: Item) => Result,
): Promise<Result[]> {
  const yieldIfDue = createYield();
  const results: Result[] = [];
  for (const item of items) {
    results.push(map(item));
    await yieldIfDue();
  }
  return results;
}
