/** In milliseconds. */
export interface RetryPolicy {
  answerWithin: number;
  /** The wait before the second attempt. It doubles with every failure. */
  firstWait: number;
  longestWait: number;
  giveUpAfter: number;
}

const second = 1000;
const minute = 60 * second;

export const retryPolicy: RetryPolicy = {
  answerWithin: 10 * second,
  firstWait: second,
  longestWait: 15 * minute,
  giveUpAfter: 24 * 60 * minute,
};

/** Includes the random part. */
export function longestOf({ longestWait }: RetryPolicy): number {
  return longestWait * 1.2;
}

/** After failures in a row. The random fifth prevents that calls that failed together are repeated together. */
export function waitAfter(failures: number, { firstWait, longestWait }: RetryPolicy, random = Math.random): number {
  const doubled = Math.min(firstWait * 2 ** Math.max(0, failures - 1), longestWait);
  return doubled * (0.8 + 0.4 * random());
}
