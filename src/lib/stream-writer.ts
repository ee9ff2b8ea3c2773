/** Where bytes go that somebody takes at their own pace. */
export interface StreamWriter {
  /** Nothing is refused; but who goes on although it is full piles up memory. */
  write(piece: StreamPiece): void;
  readonly isFull: boolean;
  /** Resolves when it is not full any more, or nobody is there any more. */
  drained(): Promise<void>;
  /** Says that nobody is there any more. */
  readonly signal: AbortSignal;
}

/** Bytes that are written to many connections. What a connection needs around them is made once for all of them. */
export class StreamPiece {
  readonly bytes: Buffer;
  #chunk: Buffer | undefined;

  constructor(bytes: Buffer | string) {
    this.bytes = Buffer.from(bytes);
  }

  /** The bytes as one chunk of an HTTP/1.1 answer. */
  get asChunk(): Buffer {
    const { bytes } = this;
    this.#chunk ??= Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')]);
    return this.#chunk;
  }
}
