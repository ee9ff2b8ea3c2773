import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { lookup } from 'node:dns/promises';
import { rm } from 'node:fs/promises';
import { connect, createServer, type Socket, type TcpNetConnectOpts } from 'node:net';
import { withoutStrays, type Command } from '../../shared/lib/descriptors.ts';
import { addressOfBuilds, isLoopback } from '../../shared/lib/networks.ts';
import { sourceFile } from '../../shared/lib/source-files.ts';

/**
 * An address and a port in a run's network that lead to one place outside. A run reaches nothing else through it: the
 * runner itself connects, and only there. See decision 0294.
 */
export interface Door {
  /** IPv4: of loopback, or an address that the run then has itself. */
  address: string;
  port: number;
  to: { host: string; port: number };
}

/** `enter` is the prefix of a command in the run's network. `socket` is the path of a new socket. */
export async function openDoor(enter: Command, socket: string, { address, port, to }: Door): Promise<AsyncDisposable> {
  await using opened = new AsyncDisposableStack();
  const sockets = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (client) => {
    hold(sockets, client);
    void joinOutside(client).catch(() => client.destroy());
  });
  const joinOutside = async (client: Socket): Promise<void> => {
    const way = await wayTo(to);
    if (client.destroyed) return;
    const outside = connect({ ...way, allowHalfOpen: true });
    hold(sockets, outside);
    join(client, outside);
    join(outside, client);
  };
  server.listen(socket);
  await once(server, 'listening');
  opened.defer(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
    await rm(socket, { force: true });
  });
  const program = sourceFile('runner', 'sandbox', 'door.pl');
  const [command, ...args] = withoutStrays([...enter, 'perl', program, address, String(port), socket], 2);
  const child = spawn(command, args, {
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: true, // the runner handles a Ctrl-C in its own terminal
    env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' },
  });
  const ended = once(child, 'close').catch(() => {});
  opened.defer(async () => {
    child.stdin.destroy();
    await ended;
  });
  let complaint = '';
  child.stderr.on('data', (chunk: Buffer) => (complaint = (complaint + chunk.toString()).slice(-1000)));
  child.stdin.on('error', () => {});
  child.on('error', (error) => (complaint += error.message));
  const isReady = await Promise.race([once(child.stdout, 'data').then(() => true), ended.then(() => false)]);
  if (!isReady) throw new Error(`a sandbox got no way to the server: ${complaint.trim()}`);
  const still = opened.move();
  return { [Symbol.asyncDispose]: () => still.disposeAsync() };
}

function hold(sockets: Set<Socket>, socket: Socket): void {
  sockets.add(socket);
  socket.on('error', () => {}); // it closes after that
  socket.once('close', () => sockets.delete(socket));
}

/** The end of one direction leaves the other open. */
function join(from: Socket, to: Socket): void {
  from.once('close', () => {
    if (!from.readableEnded) to.destroy();
  });
  from.pipe(to);
}

/** A server that trusts programs of its machine must not take the build for one. On IPv6 only one address is loopback. */
async function wayTo({ host, port }: Door['to']): Promise<TcpNetConnectOpts> {
  const found = await lookup(host, { all: true });
  const own = found.find(({ address, family }) => family === 4 && isLoopback(address));
  if (own) return { host: own.address, port, localAddress: addressOfBuilds };
  if (found.some(({ address }) => isLoopback(address))) throw new Error(`${host} is only reachable from the machine`);
  return { host, port };
}
