import autocannon from 'autocannon';
import { median } from './report.ts';

export interface Target {
  url: string;
  headers?: Record<string, string>;
  method?: 'GET' | 'POST';
  /** A new body for each request. */
  body?: () => string;
}

/** Requests per second over keep-alive connections. Anything but success ends the run: a fast error is no speed. */
export async function requestsPerSecond(target: Target, connections = 32, seconds = 3): Promise<number> {
  const { body } = target;
  const result = await autocannon({
    url: target.url,
    connections,
    duration: seconds,
    headers: target.headers ?? {},
    requests: [
      {
        method: target.method ?? 'GET',
        ...(body ? { setupRequest: (request: object) => ({ ...request, body: body() }) } : {}),
      },
    ],
    tlsOptions: { rejectUnauthorized: false },
  });
  if (result.non2xx > 0 || result.errors > 0) {
    throw new Error(`${target.url}: ${result.non2xx} failures, ${result.errors} errors`);
  }
  return result['2xx'] / result.duration;
}

/** Measures several targets in turn, round after round, so that a slow minute of the machine slows all of them. */
export async function compare(targets: Target[], rounds = 5, connections = 32): Promise<number[]> {
  for (const target of targets) await requestsPerSecond(target, connections, 2); // warm
  const rates = targets.map(() => [] as number[]);
  for (let round = 0; round < rounds; round += 1) {
    for (const [at, target] of targets.entries()) rates[at]?.push(await requestsPerSecond(target, connections));
  }
  return rates.map(median);
}
