/** Where bytes go that somebody takes at their own pace. */
export interface StreamWriter {
  /** Nothing is refused; but who goes on although it is full piles up memory. */
  write(bytes: Buffer): void;
  readonly isFull: boolean;
  /** Resolves when it is not full any more, or nobody is there any more. */
  drained(): Promise<void>;
  /** Says that nobody is there any more. */
  readonly signal: AbortSignal;
}
