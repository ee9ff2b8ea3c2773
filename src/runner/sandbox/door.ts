import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { withoutStrays, type Command } from '../../shared/lib/descriptors.ts';
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
  const server = createServer({ allowHalfOpen: true }, (client) => {
    const outside = connect({ ...to, allowHalfOpen: true });
    const end = (): void => {
      client.destroy();
      outside.destroy();
    };
    client.on('error', end).on('close', end).pipe(outside);
    outside.on('error', end).on('close', end).pipe(client);
    sockets.add(client).add(outside);
    outside.once('close', () => {
      sockets.delete(client);
      sockets.delete(outside);
    });
  });
  const sockets = new Set<{ destroy(): void }>();
  server.listen(socket);
  await once(server, 'listening');
  opened.defer(async () => {
    for (const one of sockets) one.destroy();
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
