import { once } from 'node:events';
import { connect, type TLSSocket } from 'node:tls';
import { median } from './report.ts';

export interface Target {
  url: string;
  headers?: Record<string, string>;
  method?: 'GET' | 'POST';
  /** A new body for each request. */
  body?: () => string;
}

/**
 * Requests per second over keep-alive connections. Each sends the next request when the last is answered. Uses bare
 * sockets, because the load comes from the same machine and takes processor time from the server. Any response except
 * success ends the run, because a fast error must not count.
 */
export async function requestsPerSecond(target: Target, connections = 32, seconds = 3): Promise<number> {
  const deadline = performance.now() + seconds * 1000;
  const startedAt = performance.now();
  const counts = await Promise.all(Array.from({ length: connections }, () => ask(target, deadline)));
  return counts.reduce((sum, count) => sum + count, 0) / ((performance.now() - startedAt) / 1000);
}

async function ask(target: Target, deadline: number): Promise<number> {
  using connection = await openConnection(target);
  let answered = 0;
  do {
    await connection.ask();
    answered += 1;
  } while (performance.now() < deadline);
  return answered;
}

export interface Connection extends Disposable {
  /** Sends one request and waits for its response. Any response except success is an error. */
  ask(): Promise<void>;
}

export async function openConnection(target: Target): Promise<Connection> {
  const { hostname, port, pathname, search } = new URL(target.url);
  const lines = Object.entries(target.headers ?? {}).map(([name, value]) => `${name}: ${value}\r\n`);
  const head = `${target.method ?? 'GET'} ${pathname}${search} HTTP/1.1\r\nhost: ${hostname}:${port}\r\n${lines.join('')}`;
  const request = (): string => {
    const body = target.body?.() ?? '';
    return target.body ? `${head}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}` : `${head}\r\n`;
  };

  const socket: TLSSocket = connect({ host: hostname, port: Number(port), rejectUnauthorized: false });
  let answer = Promise.withResolvers<void>();
  let text = '';
  socket.setNoDelay(true);
  socket.setEncoding('latin1');
  socket.on('error', (error) => answer.reject(error));
  socket.on('data', (chunk: string) => {
    text += chunk;
    const bodyAt = text.indexOf('\r\n\r\n') + 4;
    if (bodyAt < 4) return;
    const length = Number(/content-length: (\d+)/i.exec(text.slice(0, bodyAt))?.[1]);
    if (text.length < bodyAt + length) return;
    if (!text.startsWith('HTTP/1.1 2')) return answer.reject(new Error(`${target.url}: ${text.slice(0, 200)}`));
    text = '';
    answer.resolve();
  });
  await once(socket, 'secureConnect');
  return {
    ask() {
      answer = Promise.withResolvers<void>();
      socket.write(request());
      return answer.promise;
    },
    [Symbol.dispose]: () => socket.destroy(),
  };
}

/** Measures several targets in turn, round after round, so that a slow minute of the machine slows all of them. */
export async function compare(targets: Target[], rounds = 5, connections = 32): Promise<number[]> {
  for (const target of targets) await requestsPerSecond(target, connections, 3); // warms up: the code is compiled
  const rates = targets.map(() => [] as number[]);
  for (let round = 0; round < rounds; round += 1) {
    for (const [at, target] of targets.entries()) {
      using _awake = stayAwake();
      rates[at]?.push(await requestsPerSecond(target, connections));
    }
  }
  return rates.map(median);
}

/**
 * Keeps this process from sleeping while it waits for responses. Waking it would cost the responding server time. The
 * slower of two servers would do it more often, which would distort the comparison.
 */
function stayAwake(): Disposable {
  let next = setImmediate(function again() {
    next = setImmediate(again);
  });
  return { [Symbol.dispose]: () => clearImmediate(next) };
}
