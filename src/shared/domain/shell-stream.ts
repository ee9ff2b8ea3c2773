import { bytes as limits } from './bounds.ts';
import type { FrameLetter, ShellFrame } from './shell-frames.ts';

/**
 * One end of a shell: a page, a command or a runner. Each opens a WebSocket to any server, and the servers pass packets
 * from one end to the other. They may lose packets. So an end sends its frames again until the other end confirms them.
 * Every frame arrives once and in order, even if connections break.
 *
 * A packet has a mark (1 for the first of a connection: the other end sends again at once), the number of the frame that
 * its sender needs next, and perhaps a frame: its number, its letter and its content. Servers and pages use this too,
 * so it uses no API of Node.
 */

/** The common part of a browser's WebSocket and of `ws`. */
interface SocketEvent {
  type: string;
  data?: unknown;
  error?: Error;
  code?: number;
  reason?: string;
}

export interface ShellSocket {
  binaryType: string;
  readonly readyState: number;
  readonly bufferedAmount: number;
  addEventListener(type: 'open' | 'message' | 'error' | 'close', listener: (event: SocketEvent) => void): void;
  send(packet: Uint8Array<ArrayBuffer>): void;
  close(): void;
}

export interface ShellStreaming {
  /** Called again after a break. `refuse` ends the stream: another attempt would not help. */
  open: (refuse: (error: Error) => void) => ShellSocket;
  signal?: AbortSignal;
}

/** The server closes with this code if the shell is over, and with the reason in words. */
export const shellIsOver = 4410;

const openState = 1;
const noFrameBytes = 5;
const headerBytes = 10;
const mostContent = limits.shellPacket - headerBytes;
/** Frames ahead of the other end. Further ones wait. */
const mostAhead = 100;

const tickMs = 1000;
const hereEveryMs = 10_000;
/** The other end or a server sends something more often. After this silence the connection is dead. */
const silentMs = 35_000;
const pauseMs = 500;
/** A server that was unreachable for longer has ended the shell. */
const awayMs = 45_000;

export function hasFrame(packet: Uint8Array): boolean {
  return packet.length > noFrameBytes;
}

interface Connection {
  wasOpen: boolean;
  code?: number | undefined;
  reason?: string | undefined;
  error: Error | undefined;
}

export class ShellStream {
  readonly #streaming: ShellStreaming;
  readonly #over = new AbortController();
  readonly signal: AbortSignal;
  /** Not confirmed yet. The first has the number `#confirmed`, and `#sent` of them are on their way. */
  readonly #frames: ShellFrame[] = [];
  #confirmed = 0;
  #sent = 0;
  /** Not read yet. The first has the number `#read`. */
  readonly #arrived: ShellFrame[] = [];
  #read = 0;
  #socket: ShellSocket | undefined;
  #news = Promise.withResolvers<void>();
  #heardAt = 0;
  #saidAt = 0;
  #isStuck = false;
  /** Why it ended: an error, or the words of the server. */
  #reason: unknown;
  #drop = (): void => {};
  readonly #ticking = setInterval(() => this.#tick(), tickMs);
  /** When a frame last came or went. */
  activeAt = performance.now();

  constructor(streaming: ShellStreaming) {
    this.#streaming = streaming;
    this.signal = this.#over.signal;
    streaming.signal?.addEventListener('abort', () => this.end(), { once: true, signal: this.signal });
    if (streaming.signal?.aborted) this.end();
    this.#stayConnected().catch((error: unknown) => this.end(error));
  }

  /** From now on no frame is sent or repeated. */
  end(reason?: unknown): void {
    if (this.signal.aborted) return;
    this.#reason = reason;
    this.#over.abort();
    clearInterval(this.#ticking);
    this.#drop();
    this.#tell();
  }

  /** Settles when there is room for more. Long content arrives in several frames. */
  async send(letter: FrameLetter, content: Uint8Array | string = ''): Promise<void> {
    if (this.signal.aborted) return;
    this.activeAt = performance.now();
    const bytes = typeof content === 'string' ? new TextEncoder().encode(content) : content;
    for (let at = 0; at === 0 || at < bytes.length; at += mostContent)
      this.#frames.push({ letter, content: bytes.subarray(at, at + mostContent) });
    this.#sendOn();
    while (this.#frames.length > mostAhead && !this.signal.aborted) await this.#news.promise;
  }

  /** Settles when the other end has everything, or no longer can, or after this time. */
  async flush(ms: number): Promise<void> {
    const late = AbortSignal.timeout(ms);
    late.addEventListener('abort', () => this.#tell(), { once: true });
    while (this.#frames.length > 0 && !this.signal.aborted && !late.aborted) await this.#news.promise;
  }

  /** Throws if the server refused the shell or was unreachable for too long. */
  async *frames(): AsyncGenerator<ShellFrame> {
    for (;;) {
      const frame = this.#arrived.shift();
      if (frame) {
        this.#read += 1;
        this.#transmit();
        yield frame;
      } else if (this.signal.aborted) break;
      else await this.#news.promise;
    }
    if (this.#reason instanceof Error) throw this.#reason;
    if (typeof this.#reason !== 'string') return;
    yield { letter: 'm', content: new TextEncoder().encode(this.#reason) };
    yield { letter: 'x', content: new TextEncoder().encode('3') };
  }

  async #stayConnected(): Promise<void> {
    for (let lostAt = performance.now(); !this.signal.aborted;) {
      const { wasOpen, code, reason, error } = await this.#connection();
      const now = performance.now();
      if (wasOpen) lostAt = now;
      if (code === shellIsOver) this.end(reason);
      else if (now - lostAt > awayMs) this.end(error ?? new Error('the server cannot be reached'));
      if (this.signal.aborted) return;
      const { promise, resolve } = Promise.withResolvers<void>();
      setTimeout(resolve, pauseMs);
      await promise;
    }
  }

  /** Settles when it has ended. */
  #connection(): Promise<Connection> {
    const { promise, resolve } = Promise.withResolvers<Connection>();
    const socket = this.#streaming.open((error) => this.end(error));
    let wasOpen = false;
    let error: Error | undefined;
    this.#heardAt = performance.now();
    socket.binaryType = 'arraybuffer';
    socket.addEventListener('open', () => {
      wasOpen = true;
      this.#socket = socket;
      this.#transmit({ isFirst: true });
      this.#sendAgain();
    });
    socket.addEventListener('message', ({ data }) => {
      if (this.#socket === socket && data instanceof ArrayBuffer) this.#take(new Uint8Array(data));
    });
    socket.addEventListener('error', (event) => void ({ error } = event));
    socket.addEventListener('close', ({ code, reason }) => {
      if (this.#socket === socket) this.#socket = undefined;
      resolve({ wasOpen, code, reason, error });
    });
    // The end of a dead connection is not waited for.
    this.#drop = () => {
      this.#socket = undefined;
      socket.close();
      resolve({ wasOpen, error });
    };
    return promise;
  }

  #take(packet: Uint8Array): void {
    this.#heardAt = performance.now();
    if (packet.length < noFrameBytes) return;
    const view = new DataView(packet.buffer, packet.byteOffset);
    const [isFirst, needed] = [packet[0] === 1, view.getUint32(1)];
    if (isFirst && needed === 0 && this.#confirmed > 0) return this.end('The other end of the shell was restarted.');
    const confirmed = needed - this.#confirmed;
    if (confirmed > 0 && confirmed <= this.#frames.length) {
      this.#frames.splice(0, confirmed);
      this.#confirmed = needed;
      this.#sent = Math.max(0, this.#sent - confirmed);
      this.#isStuck = false;
      this.#tell();
    }
    if (isFirst) this.#sent = 0;
    this.#sendOn();
    if (packet.length < headerBytes) return;
    const isNext = view.getUint32(5) === this.#read + this.#arrived.length;
    if (!isNext || this.#arrived.length >= mostAhead) return this.#transmit();
    this.activeAt = performance.now();
    this.#arrived.push({ letter: String.fromCharCode(packet[9] ?? 0), content: packet.subarray(headerBytes) });
    this.#tell();
  }

  #tick(): void {
    const now = performance.now();
    if (now - this.#heardAt > silentMs) this.#drop();
    else if (this.#isStuck && this.#socket?.bufferedAmount === 0) this.#sendAgain();
    else if (now - this.#saidAt > hereEveryMs) this.#transmit();
    this.#isStuck = this.#sent > 0;
  }

  #sendAgain(): void {
    this.#sent = 0;
    this.#sendOn();
  }

  #sendOn(): void {
    if (this.#socket?.readyState !== openState) return;
    for (let next = this.#frames[this.#sent]; next && this.#sent < mostAhead; next = this.#frames[this.#sent]) {
      this.#transmit({ number: this.#confirmed + this.#sent, frame: next });
      this.#sent += 1;
    }
  }

  #transmit({
    isFirst = false,
    number = 0,
    frame,
  }: { isFirst?: boolean; number?: number; frame?: ShellFrame } = {}): void {
    if (this.#socket?.readyState !== openState) return;
    const packet = new Uint8Array(frame ? headerBytes + frame.content.length : noFrameBytes);
    const view = new DataView(packet.buffer);
    packet[0] = isFirst ? 1 : 0;
    view.setUint32(1, this.#read);
    if (frame) {
      view.setUint32(5, number);
      packet[9] = frame.letter.charCodeAt(0);
      packet.set(frame.content, headerBytes);
    }
    this.#socket.send(packet);
    this.#saidAt = performance.now();
  }

  #tell(): void {
    this.#news.resolve();
    this.#news = Promise.withResolvers<void>();
  }
}
