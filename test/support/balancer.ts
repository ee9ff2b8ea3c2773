import { once } from 'node:events';
import { get } from 'node:https';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';

/** Hands connections to servers that say they are well, in turn, as a balancer in front of several servers does. */
export interface Balancer extends AsyncDisposable {
  address: string;
}

const checkEveryMs = 50;

export async function startBalancer(ports: readonly number[], ca: string): Promise<Balancer> {
  const well = new Set<number>();
  const stop = new AbortController();
  const sockets = new Set<Socket>();
  const look = async (port: number): Promise<void> => {
    while (!stop.signal.aborted) {
      if (await isWell(port, ca)) well.add(port);
      else well.delete(port);
      await pause(checkEveryMs);
    }
  };
  const looking = ports.map(look);

  let turn = 0;
  /** The next server that takes the connection. Whoever comes while none does waits for one. */
  const reach = async (client: Socket): Promise<Socket | undefined> => {
    while (!client.destroyed) {
      turn += 1;
      const all = [...well];
      const port = all[turn % Math.max(1, all.length)];
      if (port === undefined) {
        await pause(checkEveryMs);
        continue;
      }
      const server = connect(port, '127.0.0.1');
      const isOpen = await new Promise<boolean>((resolve) => {
        server.once('connect', () => resolve(true));
        server.on('error', () => resolve(false));
      });
      if (isOpen) return server;
      well.delete(port);
    }
    return undefined;
  };
  const join = async (client: Socket): Promise<void> => {
    const server = await reach(client);
    if (!server) return;
    client.once('close', () => server.destroy());
    server.once('close', () => client.destroySoon());
    client.pipe(server).pipe(client);
    client.resume();
  };
  const front = createServer({ pauseOnConnect: true }, (client) => {
    sockets.add(client);
    client.on('error', () => {});
    client.once('close', () => sockets.delete(client));
    void join(client);
  });
  front.listen(0, '127.0.0.1');
  await once(front, 'listening');
  return {
    address: `https://127.0.0.1:${(front.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      stop.abort();
      for (const socket of sockets) socket.destroy();
      front.close();
      await Promise.all(looking);
    },
  };
}

async function isWell(port: number, ca: string): Promise<boolean> {
  return new Promise((resolve) => {
    const asking = get({ host: '127.0.0.1', port, path: '/healthz', ca, agent: false, timeout: 2000 }, (answer) => {
      answer.resume().once('end', () => resolve(answer.statusCode === 200));
    });
    asking.on('timeout', () => asking.destroy());
    asking.on('error', () => resolve(false));
  });
}
