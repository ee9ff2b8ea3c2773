const restMs = 60_000;

/** GitHub reports one limit with 403, often without a time. It expects a wait of at least a minute. */
export function restAfter(status: number, explanation: string): number | undefined {
  return (status === 403 || status === 429) && /rate limit|abuse detection/i.test(explanation) ? restMs : undefined;
}
