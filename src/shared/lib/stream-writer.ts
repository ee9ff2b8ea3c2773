/** A writer to a reader that reads at its own pace. */
export interface StreamWriter {
  /** Accepts every piece; a caller that writes although it is full piles up memory. */
  write(piece: Buffer): void;
  readonly isFull: boolean;
  /** Resolves when it is not full any more, or when the reader has gone. */
  drained(): Promise<void>;
  /** Aborted when the reader has gone. */
  readonly signal: AbortSignal;
}
