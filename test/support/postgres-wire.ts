import { rmSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { temporaryFolder } from './databases.ts';

/** A proxy to a PostgreSQL that records the texts of the statements, grouped as they were sent together. */
export interface Wire {
  /** The address of the same database through the proxy. */
  url: string;
  /** Each group was sent before one answer was awaited. */
  readonly flights: string[][];
  close(): void;
}

const socketName = '.s.PGSQL.5432';

export async function tapWire(database: string): Promise<Wire> {
  const folder = temporaryFolder();
  const url = new URL(database);
  const real = join(url.searchParams.get('host') ?? '', socketName);
  url.searchParams.set('host', folder);
  const flights: string[][] = [];
  const open = new Set<Socket>();
  const server = createServer((client) => {
    const postgres = connect(real);
    const read = flightsOf((flight) => flights.push(flight));
    client.on('data', read);
    client.pipe(postgres).pipe(client);
    for (const socket of [client, postgres]) {
      open.add(socket);
      socket.on('error', () => {}).once('close', () => open.delete(socket));
    }
  });
  await new Promise<void>((resolve) => void server.listen(join(folder, socketName), resolve));
  return {
    url: url.href,
    flights,
    close() {
      server.close();
      for (const socket of open) socket.destroy();
      rmSync(folder, { recursive: true });
    },
  };
}

/** Reads the client's extended query messages. A Sync ends a group. */
function flightsOf(found: (flight: string[]) => void): (chunk: Buffer) => void {
  const texts = new Map<string, string>();
  let bytes = Buffer.alloc(0);
  let hasStarted = false;
  let flight: string[] = [];
  const take = (type: string, body: Buffer): void => {
    const [first = '', second = ''] = body.toString('latin1').split('\0');
    if (type === 'P') texts.set(first, second);
    if (type === 'B') flight.push(texts.get(second) ?? '');
    if (type === 'Q') flight.push(first);
    if (type !== 'S' && type !== 'Q') return;
    found(flight);
    flight = [];
  };
  return (chunk) => {
    bytes = Buffer.concat([bytes, chunk]);
    for (;;) {
      const head = hasStarted ? 1 : 0; // the first message has no type
      if (bytes.length < head + 4) return;
      const end = head + bytes.readInt32BE(head);
      if (bytes.length < end) return;
      if (hasStarted) take(String.fromCharCode(bytes[0] ?? 0), bytes.subarray(5, end));
      hasStarted = true;
      bytes = bytes.subarray(end);
    }
  };
}
