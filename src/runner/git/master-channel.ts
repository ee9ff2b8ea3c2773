import { connect, type Socket } from 'node:net';
import { keepTail } from '../../lib/tail.ts';

/**
 * Runs a command on the remote of a connection without a local process. A connected ssh (connection.ts) takes SSH's own
 * channel messages through its socket, without encryption ("proxy" in OpenSSH's PROTOCOL.mux, since 7.4), and forwards
 * them under its own channel numbers. The remote can only send as much as its window allows, so unread data is limited.
 */

export interface Command {
  /** The socket of the connected ssh. */
  socket: string;
  command: string;
  environment: Record<string, string>;
  signal: AbortSignal;
}

/** Gets the output of the command, and returns the input for it; `isOver` when no more is wanted. */
export type Listener = (chunk: Buffer) => { say: string; isOver: boolean };

export interface CommandEnd {
  /** The end of its standard error. */
  said: Buffer;
  /** null where it is unknown. */
  status: number | null;
}

/** The ssh that should forward the messages has ended, or refused. */
export class ChannelLostError extends Error {
  override name = 'ChannelLostError';
}

const hello = 1;
const helloVersion = 4;
const proxy = 0x10_00_00_0f;
const proxyGranted = 0x80_00_00_0f;
const message = {
  open: 90,
  opened: 91,
  openFailed: 92,
  moreRoom: 93,
  data: 94,
  extendedData: 95,
  eof: 96,
  close: 97,
  request: 98,
  success: 99,
  failure: 100,
} as const;

const room = 256 * 1024;
const largestData = 32 * 1024;
/** The longest message: data, and its header. */
const longestMessage = largestData + 1024;
const mostSaid = 64 * 1024;
const mostSaidInAll = 1024 * 1024;
/** How long the remote may take to end after the last wanted output. */
const farewellMs = 2000;

/** Runs a command, and resolves when it ends or no more of it is wanted. Rejects with an error of `listen`. */
export function runThrough(
  { socket: path, command, environment, signal }: Command,
  listen: Listener,
): Promise<CommandEnd> {
  const { promise, resolve, reject } = Promise.withResolvers<CommandEnd>();
  if (signal.aborted) return Promise.reject(signal.reason as Error);
  const socket = connect(path);
  const channel = new Channel(socket, command, environment, listen);
  const end = (outcome: () => void): void => {
    signal.removeEventListener('abort', abort);
    clearTimeout(channel.farewell);
    socket.destroy();
    outcome();
  };
  const abort = (): void => end(() => reject(signal.reason as Error));
  signal.addEventListener('abort', abort, { once: true });
  socket.on('connect', () => channel.greet());
  socket.on('data', (chunk) => {
    try {
      channel.take(chunk);
    } catch (error) {
      end(() => reject(error));
    }
  });
  socket.on('error', () => {}); // it is closed then
  socket.on('close', () =>
    end(() => (channel.isOver ? resolve(channel.end()) : reject(new ChannelLostError('the connection was lost')))),
  );
  return promise;
}

class Channel {
  readonly #socket: Socket;
  readonly #command: string;
  readonly #environment: Record<string, string>;
  readonly #listen: Listener;
  readonly #said = keepTail(mostSaid);
  #saidInAll = 0;
  #pending: Buffer = Buffer.alloc(0);
  #state: 'hello' | 'proxy' | 'channel' = 'hello';
  #remote: Buffer = Buffer.alloc(4);
  /** The remote's window, and the input that waits for it. */
  #theirRoom = 0;
  #toSay = '';
  #unread = 0;
  #status: number | null = null;
  #isHeardOut = false;
  isOver = false;
  farewell: NodeJS.Timeout | undefined;

  constructor(socket: Socket, command: string, environment: Record<string, string>, listen: Listener) {
    this.#socket = socket;
    this.#command = command;
    this.#environment = environment;
    this.#listen = listen;
  }

  end(): CommandEnd {
    return { said: this.#said.bytes(), status: this.#status };
  }

  greet(): void {
    this.#socket.write(Buffer.concat([sized(u32(hello), u32(helloVersion)), sized(u32(proxy), u32(0))]));
  }

  take(chunk: Buffer): void {
    let rest = this.#pending.length === 0 ? chunk : Buffer.concat([this.#pending, chunk]);
    while (rest.length >= 4) {
      const length = rest.readUInt32BE(0);
      if (length < 2 || length > longestMessage) throw new ChannelLostError('ssh sent a malformed message');
      if (rest.length < 4 + length) break;
      this.#message(rest.subarray(4, 4 + length));
      rest = rest.subarray(4 + length);
    }
    this.#pending = Buffer.from(rest);
  }

  #message(bytes: Buffer): void {
    if (this.#state === 'channel') {
      this.#channelMessage(bytes[1] ?? 0, new Reader(bytes.subarray(2)));
      return;
    }
    const kind = bytes.length >= 8 ? bytes.readUInt32BE(0) : 0;
    if (kind !== (this.#state === 'hello' ? hello : proxyGranted))
      throw new ChannelLostError('ssh does not forward channels');
    if (this.#state === 'hello') {
      this.#state = 'proxy';
      return;
    }
    this.#state = 'channel';
    this.#send(message.open, text('session'), u32(0), u32(room), u32(largestData));
  }

  #channelMessage(type: number, body: Reader): void {
    body.u32(); // our channel number: there is only one
    switch (type) {
      case message.opened:
        this.#remote = u32(body.u32());
        this.#theirRoom += body.u32();
        for (const [name, value] of Object.entries(this.#environment))
          this.#send(message.request, this.#remote, text('env'), no, text(name), text(value));
        this.#send(message.request, this.#remote, text('exec'), yes, text(this.#command));
        return;
      case message.openFailed:
        throw new ChannelLostError('the host opens no more channels');
      case message.moreRoom:
        this.#theirRoom += body.u32();
        this.#flush();
        return;
      case message.data:
        this.#hear(body.bytes());
        return;
      case message.extendedData:
        body.u32();
        this.#hearAside(body.bytes());
        return;
      case message.request:
        this.#request(body);
        return;
      case message.failure:
        this.#said.add(Buffer.from('the host does not run the command\n'));
        this.#close();
        return;
      case message.close:
        this.#close();
        return;
      default: // end of data, and the confirmation that the command started
    }
  }

  #hear(bytes: Buffer): void {
    this.#makeRoom(bytes.length);
    if (this.#isHeardOut) return;
    const { say, isOver } = this.#listen(bytes);
    this.#toSay += say;
    if (isOver) this.#isHeardOut = true;
    this.#flush();
  }

  #hearAside(bytes: Buffer): void {
    this.#saidInAll += bytes.length;
    this.#said.add(bytes);
    if (this.#saidInAll > mostSaidInAll) this.#close();
    else this.#makeRoom(bytes.length);
  }

  #makeRoom(bytes: number): void {
    this.#unread += bytes;
    if (this.#unread < room / 2 || this.#isHeardOut) return;
    this.#send(message.moreRoom, this.#remote, u32(this.#unread));
    this.#unread = 0;
  }

  /** All input is short: it is sent in one piece, once the window has room for it. */
  #flush(): void {
    if (this.#toSay.length > 0 && this.#toSay.length <= this.#theirRoom) {
      this.#theirRoom -= this.#toSay.length;
      this.#send(message.data, this.#remote, text(this.#toSay));
      this.#toSay = '';
    }
    if (!this.#isHeardOut || this.#toSay.length > 0 || this.farewell) return;
    this.#send(message.eof, this.#remote);
    this.farewell = setTimeout(() => this.#close(), farewellMs);
  }

  #request(body: Reader): void {
    const name = body.bytes().toString('latin1');
    const wantsReply = body.u8() === 1;
    if (name === 'exit-status') this.#status = body.u32();
    if (wantsReply) this.#send(message.failure, this.#remote);
  }

  #close(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.#send(message.close, this.#remote);
    this.#socket.end();
    this.#socket.destroySoon();
  }

  #send(type: number, ...parts: Buffer[]): void {
    this.#socket.write(sized(Buffer.from([0, type]), ...parts));
  }
}

/** Reads the parts of a message; a message that is too short ends the connection. */
class Reader {
  #rest: Buffer;

  constructor(bytes: Buffer) {
    this.#rest = bytes;
  }

  u8(): number {
    return this.#take(1)[0] ?? 0;
  }

  u32(): number {
    return this.#take(4).readUInt32BE(0);
  }

  bytes(): Buffer {
    return this.#take(this.u32());
  }

  #take(length: number): Buffer {
    if (this.#rest.length < length) throw new ChannelLostError('ssh sent a malformed message');
    const taken = this.#rest.subarray(0, length);
    this.#rest = this.#rest.subarray(length);
    return taken;
  }
}

const [no, yes] = [Buffer.from([0]), Buffer.from([1])];

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

function text(value: string): Buffer {
  return sized(Buffer.from(value));
}

function sized(...parts: Buffer[]): Buffer {
  const bytes = Buffer.concat(parts);
  return Buffer.concat([u32(bytes.length), bytes]);
}
