import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';

const lowest = 10_000;

/**
 * A port for a server that comes back and must be found where it was. Where there is room, it is below those that the
 * system hands out: no connection and no other server gets one of these while the server is away.
 */
export async function freePort(): Promise<number> {
  const range = readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8');
  const handedOut = Number.parseInt(range, 10);
  for (;;) {
    const port = await tried(handedOut > 2 * lowest ? randomInt(lowest, handedOut) : 0);
    if (port !== undefined) return port;
  }
}

/** The port, or any for 0; undefined where somebody has it. */
async function tried(wanted: number): Promise<number | undefined> {
  const server = createServer().listen(wanted, '127.0.0.1');
  try {
    await once(server, 'listening');
  } catch {
    return undefined;
  }
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
