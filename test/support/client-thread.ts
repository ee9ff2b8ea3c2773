import { once } from 'node:events';
import { parentPort, Worker, workerData } from 'node:worker_threads';
import { WebSocket } from 'ws';
import { Client, type Asking } from './client.ts';

/**
 * A client in a thread of its own, for tests that measure what a request costs the server's thread: what the client does
 * does not count.
 */
export interface Request_ extends Asking {
  method: string;
  path: string;
  /** Whether the first bytes of the answer are enough. */
  isLong?: boolean;
  /** Goes over a WebSocket at this path, as one message, whose answer is waited for. */
  message?: string;
}

interface Server {
  address: string;
  certificate: string;
}

export class ClientThread {
  readonly #worker: Worker;

  constructor(server: Server) {
    this.#worker = new Worker(new URL(import.meta.url), { workerData: server });
  }

  /** Takes the request over; it is sent when the function is called, which answers the status. */
  async prepare(request: Request_): Promise<() => Promise<number>> {
    this.#worker.postMessage(request, []);
    await once(this.#worker, 'message');
    return async () => {
      this.#worker.postMessage('go', []);
      const [status] = (await once(this.#worker, 'message')) as [number];
      return status;
    };
  }

  async close(): Promise<void> {
    await this.#worker.terminate();
  }
}

async function status(server: Server, client: Client, request: Request_): Promise<number> {
  const { method, path, message, isLong = false, ...asking } = request;
  if (message !== undefined) {
    const options = { headers: asking.headers ?? {}, ca: server.certificate };
    const socket = new WebSocket(`${server.address}${path}`, options);
    await once(socket, 'open');
    socket.send(message);
    const [answer] = (await once(socket, 'message')) as [Buffer];
    socket.terminate();
    return (JSON.parse(answer.toString()) as { status?: number }).status ?? 200;
  }
  if (!isLong) return (await client.ask(method, path, asking)).status;
  const answer = await client.open(path, asking);
  await once(answer, 'data');
  answer.destroy();
  return answer.statusCode ?? 0;
}

if (parentPort) {
  const port = parentPort;
  const server = workerData as Server;
  const client = new Client(server.address, server.certificate);
  let prepared: Request_ | undefined;
  port.on('message', (message: Request_ | 'go') => {
    if (message !== 'go') {
      prepared = message;
      port.postMessage('ready', []);
    } else if (prepared) {
      void status(server, client, prepared).then((answered) => port.postMessage(answered, []));
    }
  });
}
