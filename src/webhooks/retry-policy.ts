/** How receivers that do not answer are dealt with, in milliseconds. */
export interface RetryPolicy {
  /** An answer that takes longer is none. */
  answerWithin: number;
  /** The wait before the second attempt; it doubles with every failure that follows. */
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

/** No wait is longer. */
export function longestOf({ longestWait }: RetryPolicy): number {
  return longestWait * 1.2;
}

/** The wait after so many failures in a row. A fifth more or less, so that what failed together does not come back together. */
export function waitAfter(failures: number, { firstWait, longestWait }: RetryPolicy, random = Math.random): number {
  const doubled = Math.min(firstWait * 2 ** Math.max(0, failures - 1), longestWait);
  return doubled * (0.8 + 0.4 * random());
}
