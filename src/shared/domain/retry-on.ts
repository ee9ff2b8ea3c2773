import { compiles } from './rule-expressions.ts';

/** The reasons for which a suite's builds are tried again, as `retry_on[]` has them. */
export interface RetryOn {
  /** The machine's fault. */
  errored: boolean;
  timeout: boolean;
  exits: readonly number[];
  /** In RE2 syntax, searched in each line of the log. */
  expressions: readonly string[];
}

const logPrefix = 'log:';
const exitForm = /^exit:([1-9][0-9]{0,2})$/;

export function isRetryReason(line: string): boolean {
  if (line === 'errored' || line === 'timeout') return true;
  if (line.startsWith(logPrefix)) return line.length > logPrefix.length && compiles(line.slice(logPrefix.length));
  return Number(exitForm.exec(line)?.[1] ?? 256) <= 255;
}

export function retryOnOf(reasons: readonly string[]): RetryOn {
  return {
    errored: reasons.includes('errored'),
    timeout: reasons.includes('timeout'),
    exits: reasons.flatMap((one) => exitForm.exec(one)?.[1] ?? []).map(Number),
    expressions: reasons.filter((one) => one.startsWith(logPrefix)).map((one) => one.slice(logPrefix.length)),
  };
}
