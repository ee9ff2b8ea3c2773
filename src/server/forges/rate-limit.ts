/** GitHub asks for at least a minute. */
const restMs = 60_000;

/** How long to wait after a refusal for too many calls. GitHub has a limit that it reports with 403, often without a time. */
export function restAfter(status: number, said: string): number | undefined {
  return (status === 403 || status === 429) && /rate limit|abuse detection/i.test(said) ? restMs : undefined;
}
