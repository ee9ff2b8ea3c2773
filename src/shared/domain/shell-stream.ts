import { bytes as limits } from './bounds.ts';
import { shellFrame, shellFrameReader, type ShellFrame } from './shell-frames.ts';

/**
 * One end of a shell: a page, a command or a runner. Each opens a WebSocket to any server, and the servers pass packets
 * from one end to the other. They may lose packets. So an end sends its bytes again until the other end confirms them,
 * and every byte arrives once and in order, whichever connection breaks.
 *
 * A packet has a mark (1 for the first of a connection: the other end sends again at once), the position of its bytes,
 * the position that its sender needs next, and the bytes. Servers and pages use this too, so it needs nothing of Node.
 */

/** The common part of a browser's WebSocket and of `ws`. */
export interface ShellSocket {
  binaryType: string;
  readonly readyState: number;
  readonly bufferedAmount: number;
  onopen: ((event: never) => void) | null;
  onmessage: ((event: never) => void) | null;
  onerror: ((event: never) => void) | null;
  onclose: ((event: never) => void) | null;
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
const headerBytes = 17;
const nothing = new Uint8Array();
/** Bytes ahead of the other end. Further ones wait. */
const aheadBytes = 256 * 1024;
const typedBytes = 32 * 1024;

const tickMs = 1000;
const hereEveryMs = 10_000;
/** The other end or a server says something more often, so the connection is dead. */
const silentMs = 35_000;
const pauseMs = 500;
/** A server that was unreachable for longer has ended the shell. */
const awayMs = 45_000;

export function hasBytes(packet: Uint8Array): boolean {
  return packet.length > headerBytes;
}

interface Connection {
  wasOpen: boolean;
  code?: number;
  reason?: string;
  error: Error | undefined;
}

export class ShellStream {
  readonly #streaming: ShellStreaming;
  readonly #over = new AbortController();
  readonly signal: AbortSignal;
  /** Not confirmed yet. The first `#sent` are on their way. */
  readonly #packets: { at: number; bytes: Uint8Array }[] = [];
  #sent = 0;
  #end = 0;
  #confirmed = 0;
  /** Not read yet. */
  readonly #arrived: Uint8Array[] = [];
  #arrivedTo = 0;
  #readTo = 0;
  #socket: ShellSocket | undefined;
  #news = Promise.withResolvers<void>();
  #heardAt = 0;
  #saidAt = 0;
  #isStuck = false;
  /** Why it ended: an error, or the words of the server. */
  #reason: unknown;
  #drop = (): void => {};
  readonly #ticking = setInterval(() => this.#tick(), tickMs);
  /** When bytes last came or went. */
  activeAt = performance.now();

  constructor(streaming: ShellStreaming) {
    this.#streaming = streaming;
    this.signal = this.#over.signal;
    streaming.signal?.addEventListener('abort', () => this.end(), { once: true, signal: this.signal });
    if (streaming.signal?.aborted) this.end();
    this.#stayConnected().catch((error: unknown) => this.end(error));
  }

  /** The next frames are never sent, nor sent again. */
  end(reason?: unknown): void {
    if (this.signal.aborted) return;
    this.#reason = reason;
    this.#over.abort();
    clearInterval(this.#ticking);
    this.#drop();
    this.#tell();
  }

  /** Settles when there is room for more. */
  async send(frame: Uint8Array): Promise<void> {
    if (this.signal.aborted) return;
    this.activeAt = performance.now();
    const most = limits.shellPacket - headerBytes;
    for (let at = 0; at < frame.length; at += most)
      this.#packets.push({ at: this.#end + at, bytes: frame.subarray(at, at + most) });
    this.#end += frame.length;
    this.#sendOn();
    while (this.#end - this.#confirmed > aheadBytes && !this.signal.aborted) await this.#news.promise;
  }

  type(typed: Uint8Array | string): Promise<void> {
    const bytes = typeof typed === 'string' ? new TextEncoder().encode(typed) : typed;
    let sent = Promise.resolve();
    for (let at = 0; at < bytes.length; at += typedBytes)
      sent = this.send(shellFrame('d', bytes.subarray(at, at + typedBytes)));
    return sent;
  }

  /** Settles when the other end has everything, or no longer can, or after this time. */
  async flush(ms: number): Promise<void> {
    const late = AbortSignal.timeout(ms);
    late.addEventListener('abort', () => this.#tell(), { once: true });
    while (this.#packets.length > 0 && !this.signal.aborted && !late.aborted) await this.#news.promise;
  }

  /** Throws if the server refused the shell or was unreachable for too long. */
  async *frames(): AsyncGenerator<ShellFrame> {
    const read = shellFrameReader();
    for (;;) {
      const bytes = this.#arrived.shift();
      if (bytes) {
        this.#readTo += bytes.length;
        this.#transmit(nothing);
        yield* read(bytes);
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
    socket.onopen = () => {
      wasOpen = true;
      this.#socket = socket;
      this.#transmit(nothing, true);
      this.#sendAgain();
    };
    socket.onmessage = ({ data }: { data: unknown }) => {
      if (this.#socket === socket && data instanceof ArrayBuffer) this.#take(new Uint8Array(data));
    };
    socket.onerror = (event: { error?: Error }) => void ({ error } = event);
    socket.onclose = ({ code, reason }: { code: number; reason: string }) => {
      if (this.#socket === socket) this.#socket = undefined;
      resolve({ wasOpen, code, reason, error });
    };
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
    if (packet.length < headerBytes) return;
    const view = new DataView(packet.buffer, packet.byteOffset);
    const [isFirst, at, needed] = [packet[0] === 1, view.getFloat64(1), view.getFloat64(9)];
    const bytes = packet.subarray(headerBytes);
    if (isFirst && needed === 0 && this.#confirmed > 0) return this.end('The other end of the shell was restarted.');
    if (needed > this.#confirmed && needed <= this.#end) {
      this.#confirmed = needed;
      this.#isStuck = false;
      while (this.#packets[0] && this.#packets[0].at + this.#packets[0].bytes.length <= needed) {
        this.#packets.shift();
        this.#sent = Math.max(0, this.#sent - 1);
      }
      this.#tell();
    }
    if (isFirst) this.#sendAgain();
    else this.#sendOn();
    if (bytes.length === 0) return;
    const known = this.#arrivedTo - at;
    const isNext = known >= 0 && known < bytes.length;
    if (!isNext || this.#arrivedTo - this.#readTo > aheadBytes) return this.#transmit(nothing);
    this.activeAt = performance.now();
    this.#arrived.push(bytes.subarray(known));
    this.#arrivedTo += bytes.length - known;
    this.#tell();
  }

  #tick(): void {
    const now = performance.now();
    if (now - this.#heardAt > silentMs) this.#drop();
    else if (this.#isStuck && this.#socket?.bufferedAmount === 0) this.#sendAgain();
    else if (now - this.#saidAt > hereEveryMs) this.#transmit(nothing);
    this.#isStuck = this.#sent > 0;
  }

  #sendAgain(): void {
    this.#sent = 0;
    this.#sendOn();
  }

  #sendOn(): void {
    if (this.#socket?.readyState !== openState) return;
    for (let next = this.#packets[this.#sent]; next; next = this.#packets[this.#sent]) {
      if (next.at + next.bytes.length - this.#confirmed > aheadBytes) return;
      this.#transmit(next.bytes, false, next.at);
      this.#sent += 1;
    }
  }

  #transmit(bytes: Uint8Array, isFirst = false, at = 0): void {
    if (this.#socket?.readyState !== openState) return;
    const packet = new Uint8Array(headerBytes + bytes.length);
    const view = new DataView(packet.buffer);
    packet[0] = isFirst ? 1 : 0;
    view.setFloat64(1, at);
    view.setFloat64(9, this.#readTo);
    packet.set(bytes, headerBytes);
    this.#socket.send(packet);
    this.#saidAt = performance.now();
  }

  #tell(): void {
    this.#news.resolve();
    this.#news = Promise.withResolvers<void>();
  }
}
