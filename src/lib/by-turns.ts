import { setImmediate as nextTurn } from 'node:timers/promises';

/** For so long items are taken one after the other, in milliseconds. */
const longestMs = 10;

/** The same as `map`; where there are very many items, the event loop turns in between. */
export async function mapByTurns<Item, Result>(items: readonly Item[], map: (item: Item) => Result): Promise<Result[]> {
  const results: Result[] = [];
  let beganAt = performance.now();
  for (const item of items) {
    results.push(map(item));
    if (performance.now() - beganAt < longestMs) continue;
    await nextTurn();
    beganAt = performance.now();
  }
  return results;
}
