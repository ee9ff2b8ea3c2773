import { createServer, type Socket } from 'node:net';
import { wireReader, wireString, type SshPrivateKey } from './ssh-private-key.ts';

/*
 * ssh asks the socket for the keys (there is one), then for a signature. The key never leaves this process: no file,
 * argument, environment variable or second process has it, and a `kill -9` leaves only a dead socket. Other requests
 * (adding keys, locking, extensions) are refused, which ssh accepts.
 */

const failure = 5;
const requestIdentities = 11;
const identitiesAnswer = 12;
const signRequest = 13;
const signResponse = 14;

/** Real requests are a few hundred bytes. */
const longestMessage = 256 * 1024;

export interface SshAgent {
  close(): Promise<void>;
}

/** The folder around the Unix socket `path` decides who may connect. */
export async function serveSshAgent(path: string, key: SshPrivateKey): Promise<SshAgent> {
  const clients = new Set<Socket>();
  const server = createServer((client) => {
    clients.add(client);
    client.on('close', () => clients.delete(client));
    client.on('error', () => client.destroy()); // a client that disconnected in the middle of a request needs no answer
    converse(client, key);
  });
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once('error', reject);
  server.listen(path, resolve);
  await promise;
  return {
    close: () => {
      for (const client of clients) client.destroy();
      return new Promise((done) => server.close(() => done()));
    },
  };
}

function converse(client: Socket, key: SshPrivateKey): void {
  let pending = Buffer.alloc(0);
  client.on('data', (chunk: Buffer) => {
    pending = Buffer.concat([pending, chunk]);
    while (pending.length >= 4) {
      const length = pending.readUInt32BE();
      if (length === 0 || length > longestMessage) {
        client.destroy();
        return;
      }
      if (pending.length < 4 + length) return;
      client.write(wireString(answer(pending.subarray(4, 4 + length), key)));
      pending = pending.subarray(4 + length);
    }
  });
}

function answer(message: Buffer, key: SshPrivateKey): Buffer {
  try {
    if (message[0] === requestIdentities) {
      const one = Buffer.from([0, 0, 0, 1]);
      return Buffer.concat([Buffer.from([identitiesAnswer]), one, wireString(key.publicBlob), wireString(key.comment)]);
    }
    if (message[0] === signRequest) {
      const request = wireReader(message.subarray(1));
      const asked = request.string();
      const data = request.string();
      if (asked.equals(key.publicBlob)) {
        return Buffer.concat([Buffer.from([signResponse]), wireString(key.sign(data))]);
      }
    }
  } catch {
    // A malformed request gets the same refusal as an unknown one.
  }
  return Buffer.from([failure]);
}
