/** A writer to a reader that reads at its own pace. */
export interface StreamWriter {
  /** Accepts every piece; a caller that writes although it is full piles up memory. */
  write(piece: StreamPiece): void;
  readonly isFull: boolean;
  /** Resolves when it is not full any more, or when the reader has gone. */
  drained(): Promise<void>;
  /** Aborted when the reader has gone. */
  readonly signal: AbortSignal;
}

/** Bytes that are written to many connections. Their HTTP framing is made once for all connections. */
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
