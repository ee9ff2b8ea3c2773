import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';

export interface BreakingProxy {
  address: string;
  /** How many bytes each connection carries to the server from now on, also those that are open, before it breaks. */
  breaksAfter(bytes: number): void;
  close(): Promise<void>;
}

/** Stands between a client and a server, and breaks their connections; what it let through arrives. */
export async function startBreakingProxy(target: string): Promise<BreakingProxy> {
  const { protocol, hostname, port } = new URL(target);
  let most = Infinity;
  const open = new Set<Socket>();
  const left = new Map<Socket, number>();
  const proxy = createServer((client) => {
    const server = connect(Number(port), hostname);
    left.set(client, most);
    for (const socket of [client, server]) {
      open.add(socket);
      socket.on('error', () => {}).on('close', () => void open.delete(socket));
    }
    server.on('close', () => client.destroy()).on('data', (chunk: Buffer) => client.write(chunk));
    client.on('close', () => {
      server.end();
      left.delete(client);
    });
    client.on('data', (chunk: Buffer) => {
      const room = left.get(client) ?? 0;
      const passed = chunk.subarray(0, Math.max(0, room));
      left.set(client, room - chunk.length);
      if (!server.write(passed)) {
        client.pause();
        server.once('drain', () => client.resume());
      }
      if (room <= chunk.length) client.destroy();
    });
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  return {
    address: `${protocol}//127.0.0.1:${(proxy.address() as AddressInfo).port}`,
    breaksAfter(bytes) {
      most = bytes;
      for (const client of left.keys()) left.set(client, bytes);
    },
    async close() {
      for (const socket of open) socket.destroy();
      proxy.close();
      await once(proxy, 'close');
    },
  };
}
