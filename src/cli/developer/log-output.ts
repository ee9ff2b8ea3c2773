import { once } from 'node:events';
import type { Readable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import type { Screen } from './screen.ts';
import { LogFilter } from './text.ts';

/**
 * A terminal gets only safe output. A file or a pipe gets every byte unchanged, unless the log is among other lines.
 */
export async function copyLog(from: Readable, screen: Screen, isFiltered = screen.out.isTTY): Promise<void> {
  const writer = new LogWriter(screen, isFiltered);
  for await (const piece of from as AsyncIterable<Buffer>) await writer.write(piece);
  await writer.end();
}

export class LogWriter {
  readonly #out: NodeJS.WriteStream;
  readonly #filter: LogFilter | undefined;
  readonly #decoder = new StringDecoder('utf8');
  #isAtStart = true;

  /** With --json, standard output is for the record alone. */
  constructor(screen: Screen, isFiltered: boolean) {
    this.#out = screen.isJson ? screen.err : screen.out;
    this.#filter = isFiltered ? new LogFilter(screen.hasColours) : undefined;
  }

  async write(piece: Buffer | string): Promise<void> {
    if (!this.#filter) return this.#put(piece);
    return this.#put(this.#filter.write(typeof piece === 'string' ? piece : this.#decoder.write(piece)));
  }

  /** If the log does not end with a line break, one is added, so that the prompt is below it. */
  async end(): Promise<void> {
    if (!this.#filter) return;
    await this.#put(this.#filter.write(this.#decoder.end()));
    const isOpen = !this.#isAtStart;
    await this.#put(this.#filter.end());
    if (isOpen) await this.#put('\n');
  }

  async #put(piece: Buffer | string): Promise<void> {
    if (piece.length === 0) return;
    this.#isAtStart = typeof piece === 'string' ? piece.endsWith('\n') : piece.at(-1) === 10;
    if (!this.#out.write(piece)) await once(this.#out, 'drain');
  }
}
