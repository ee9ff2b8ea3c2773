import type { LineIndex } from '../streams/line-index.ts';
import { piecesOf } from '../streams/search.ts';
import type { LineStorage } from '../streams/line-index.ts';
import type { DiffAnswer, LinesTask } from './diff-worker.ts';

export type HashLines = (task: LinesTask, moved: ArrayBuffer[]) => Promise<DiffAnswer>;

/** The hashes of a log's lines, read as far as they are needed. Those that were passed are forgotten. */
export class HashedLog {
  readonly index: LineIndex;
  readonly #pieces: AsyncIterator<{ bytes: Uint8Array<ArrayBuffer> }>;
  readonly #hash: HashLines;
  #coming: Promise<DiffAnswer | undefined>;
  #chunks: DiffAnswer[] = [];
  /** Passed lines of the first chunk. */
  #skipped = 0;
  /** Passed lines. */
  at = 0;
  #length = 0;
  #isRead = false;

  constructor(parts: LineStorage, index: LineIndex, hash: HashLines) {
    this.index = index;
    this.#hash = hash;
    this.#pieces = piecesOf(parts, index, 1, index.total)[Symbol.asyncIterator]();
    this.#coming = this.#next();
  }

  /** How many lines are known. */
  get length(): number {
    return this.#length;
  }

  /** Nothing comes after the known lines. */
  get isRead(): boolean {
    return this.#isRead;
  }

  async fill(count: number): Promise<void> {
    while (this.#length < count && !this.#isRead) {
      const chunk = await this.#coming;
      if (chunk === undefined) this.#isRead = true;
      else {
        this.#coming = this.#next();
        this.#chunks.push(chunk);
        this.#length += chunk.length;
      }
    }
  }

  /** The known lines that are in memory one after the other. */
  first(): DiffAnswer {
    return this.#chunks[0]?.subarray(this.#skipped) ?? new Uint32Array(0);
  }

  copy(count: number): DiffAnswer {
    const all = new Uint32Array(Math.min(count, this.#length));
    let at = 0;
    for (const [index, chunk] of this.#chunks.entries()) {
      const some = chunk.subarray(index === 0 ? this.#skipped : 0).subarray(0, all.length - at);
      all.set(some, at);
      at += some.length;
    }
    return all;
  }

  pass(count: number): void {
    this.at += count;
    this.#length -= count;
    this.#skipped += count;
    for (let [first] = this.#chunks; first && this.#skipped >= first.length; [first] = this.#chunks) {
      this.#skipped -= first.length;
      this.#chunks.shift();
    }
  }

  async close(): Promise<void> {
    await this.#coming.catch(() => {});
    await this.#pieces.return?.();
  }

  #next(): Promise<DiffAnswer | undefined> {
    const reading = this.#read();
    reading.catch(() => {}); // `fill` gets the error
    return reading;
  }

  async #read(): Promise<DiffAnswer | undefined> {
    const { value, done } = await this.#pieces.next();
    return done === true ? undefined : this.#hash({ kind: 'exact', bytes: value.bytes }, [value.bytes.buffer]);
  }
}
