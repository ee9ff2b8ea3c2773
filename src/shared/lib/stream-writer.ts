export interface StreamWriter {
  /** Accepts every piece. A caller that writes to a full writer piles up memory. */
  write(piece: Buffer): void;
  readonly isFull: boolean;
  /** Resolves when it is no longer full, or when the reader has gone. */
  drained(): Promise<void>;
  /** Aborted when the reader has gone. */
  readonly signal: AbortSignal;
}
