import { backOff } from '../../shared/lib/back-off.ts';

/** In milliseconds. */
export interface RetryPolicy {
  /** A call without a response by then has failed. */
  answerWithin: number;
  /** The wait before the second attempt. It doubles with every failure that follows. */
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

/** The longest wait, including its random part. */
export function longestOf({ longestWait }: RetryPolicy): number {
  return longestWait * 1.2;
}

/** The random part keeps calls that failed together from being retried together. */
export function retryWait(failures: number, { firstWait, longestWait }: RetryPolicy, random = Math.random): number {
  return backOff(failures, firstWait, longestWait) * (0.8 + 0.4 * random());
}
