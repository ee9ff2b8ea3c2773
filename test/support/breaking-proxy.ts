import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';

export interface BreakingProxy {
  address: string;
  /** How many bytes each connection carries to the server from now on, before it breaks. */
  breaksAfter(bytes: number): void;
  close(): Promise<void>;
}

/** Stands between a client and a server, and breaks their connections; what it let through arrives. */
export async function startBreakingProxy(target: string): Promise<BreakingProxy> {
  const { protocol, hostname, port } = new URL(target);
  let most = Infinity;
  const open = new Set<Socket>();
  const proxy = createServer((client) => {
    const server = connect(Number(port), hostname);
    let left = most;
    for (const socket of [client, server]) {
      open.add(socket);
      socket.on('error', () => {}).on('close', () => void open.delete(socket));
    }
    server.on('close', () => client.destroy()).on('data', (chunk: Buffer) => client.write(chunk));
    client.on('close', () => server.end());
    client.on('data', (chunk: Buffer) => {
      const passed = chunk.subarray(0, Math.max(0, left));
      left -= chunk.length;
      if (!server.write(passed)) {
        client.pause();
        server.once('drain', () => client.resume());
      }
      if (left <= 0) client.destroy();
    });
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
  return {
    address: `${protocol}//127.0.0.1:${(proxy.address() as AddressInfo).port}`,
    breaksAfter: (bytes) => void (most = bytes),
    async close() {
      for (const socket of open) socket.destroy();
      proxy.close();
      await once(proxy, 'close');
    },
  };
}
